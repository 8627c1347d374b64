"""Runs the commands of walkthrough.md in a new folder and writes their output below them.

Needs the package's registry for the corpus 'vader', and Chromium for the pictures: python docs/make_walkthrough.py
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

DOCS = Path(__file__).parent
PAGE = DOCS / "walkthrough.md"
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
NOT_RUN = ("git ", "cd ", "make ", "source ")
ADDRESS = "http://127.0.0.1:8000"


def refresh() -> None:
    """Rewrite the page."""
    text = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(Path(folder))
        try:
            text = BLOCK.sub(runner.rewritten, text)
        finally:
            runner.end()
    PAGE.write_text(text, encoding="utf-8")


class Runner:
    """Runs blocks in a folder, in their order."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._env = {**os.environ, "COLUMNS": "100", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        self._server: subprocess.Popen[bytes] | None = None

    def rewritten(self, block: re.Match[str]) -> str:
        """Return a block with the output of its commands."""
        kind, body = block.groups()
        if kind == "python":
            subprocess.run([sys.executable, "-c", body], cwd=self._folder, env=self._env, check=True)
            return block[0]
        lines = []
        for command in re.findall(r"^\$ ((?:.*\\\n)*.*)$", body, flags=re.MULTILINE):
            lines.append(f"$ {command}")
            if not command.startswith(NOT_RUN):
                lines += [line.rstrip() for line in self._output(command).strip("\n").splitlines()]
        return "```console\n" + "\n".join(lines) + "\n```"

    def _output(self, command: str) -> str:
        if command.startswith("multidomain serve"):
            self._server = subprocess.Popen(command.split(), cwd=self._folder, env=self._env, stderr=subprocess.DEVNULL)
            wait_for_server()
            picture_of(f"{ADDRESS}/", DOCS / "images" / "page.png", with_answer=True)
            return ""
        options = {"cwd": self._folder, "env": self._env, "text": True, "check": True}
        shown = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
        if command.startswith("multidomain report"):
            page = self._folder / shown.stdout.strip().splitlines()[-1]
            picture_of(page.as_uri(), DOCS / "images" / "report.png")
        return shown.stdout.replace(str(Path.home()), "~")

    def end(self) -> None:
        """Stop the server."""
        if self._server:
            self._server.send_signal(signal.SIGTERM)
            self._server.wait()


def wait_for_server() -> None:
    """Return when the server is up."""
    for _ in range(300):
        try:
            urllib.request.urlopen(f"{ADDRESS}/healthz", timeout=1)
            return
        except OSError:
            time.sleep(0.2)
    raise TimeoutError(f"no server has come up at {ADDRESS}")


def picture_of(address: str, path: Path, *, with_answer: bool = False) -> None:
    """Take a screenshot of a page."""
    from playwright.sync_api import sync_playwright

    path.parent.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1000, "height": 1400})
        page.goto(address)
        if with_answer:
            page.get_by_label("Text", exact=True).fill("The plot is thin, but what a wonderful cast!")
            page.get_by_label("Domain", exact=True).select_option(label="movies")
            page.get_by_role("button", name="Compare domains").click()
            page.get_by_role("button", name="Predict").click()
            page.wait_for_timeout(2000)
        page.screenshot(path=path)
        browser.close()


if __name__ == "__main__":
    refresh()

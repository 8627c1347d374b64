"""A browser, a server and a page for each test."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "serve"))  # the same model and servers as for the API

from serving import Server, domain_specific_model, serving, trained_model

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_model(tmp_path_factory)


@pytest.fixture(scope="session")
def domain_specific_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return domain_specific_model(tmp_path_factory)


@pytest.fixture(scope="session")
def server(model_folder: Path) -> Iterator[Server]:
    with serving(model_folder) as server:
        yield server


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = os.environ.get("MULTIDOMAIN_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if not path or not Path(path).exists():
        pytest.skip("needs chromium: install it, or set MULTIDOMAIN_CHROMIUM to its path")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, server: Server) -> Iterator[Page]:
    """The page, opened; it must not fall over, and load nothing from elsewhere."""
    from playwright.sync_api import expect

    with_faults: list[str] = []
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    context.set_default_timeout(10_000)
    page = context.new_page()
    page.on("pageerror", lambda error: with_faults.append(str(error)))
    page.on(
        "request",
        lambda request: request.url.startswith(("http://127.0.0.1:", "blob:")) or with_faults.append(request.url),
    )
    page.on("filechooser", lambda _: None)  # so that choosers are caught from the start; when asked for, it is late
    page.goto(server.url)
    expect(page.locator("#domain option")).to_have_count(5)
    yield page
    context.close()
    assert with_faults == []

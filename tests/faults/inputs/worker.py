"""Fuzzes readers in a process of its own, whose time and memory are bounded, and says what it found as JSON.

    python tests/faults/inputs/worker.py FOLDER SEED csv=100 model-sped=50 [--replay CASES]

A case follows from seed, target and number alone. Expected is that a reader succeeds or refuses with a
`MultidomainError` that says why. Anything else is a fault; its input is kept in FOLDER/found.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from readers import TARGETS, Target

CPU_SECONDS = 10
MEMORY = 2 * 2**30  # more than at the start
BY_COMMAND = 10  # every tenth case goes through the command line too
EVIL = "from pathlib import Path\nPath(__file__).with_name('owned').touch()\n"


class TooSlow(BaseException):
    """A case took more than `CPU_SECONDS`."""


def _stop(*_: Any) -> None:
    raise TooSlow


@contextlib.contextmanager
def bounded_time() -> Iterator[None]:
    before = signal.signal(signal.SIGVTALRM, _stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def bound_memory() -> None:
    """Let the process have so much more than it has now, with all libraries loaded."""
    import polars
    import torch

    torch.set_num_threads(1)
    polars.DataFrame({"a": [1]}).lazy().collect()
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def outcome(action: Callable[[], None]) -> str:
    """Return ``read``, ``refused``, or the traceback of a fault."""
    from multidomain.errors import MultidomainError

    try:
        with bounded_time(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            action()
    except MultidomainError as error:
        return "refused" if error.message.strip() else "a refusal that says nothing"
    except BaseException:
        return traceback.format_exc()
    return "read"


def command(arguments: list[str]) -> None:
    """Run the command line in this process; raise what it says if it ends in another way than it should."""
    from multidomain.cli import main as cli
    from multidomain.errors import MultidomainError

    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["multidomain", *arguments]
    code: Any = None
    os.environ["MULTIDOMAIN_DEBUG"] = "1"
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main()
    except SystemExit as end:
        code = end.code or 0
    if code not in (0, 2) or "\x1b" in out.getvalue() + err.getvalue():
        raise AssertionError(f"exit code {code!r}: {err.getvalue()[-3000:]}")
    if code == 2:
        raise MultidomainError(err.getvalue())


def check_case(target: Target, folder: Path, *, by_command: bool) -> str:
    """Read a damaged folder; nothing beside it may change."""
    before = sorted(path.name for path in folder.parent.iterdir())
    result = outcome(lambda: target.read(folder))
    arguments = target.command(folder) if by_command else []
    if result in ("read", "refused") and arguments:
        told = outcome(lambda: command(arguments))
        result = result if told in ("read", "refused") else told
    after = sorted(path.name for path in folder.parent.iterdir())
    if after != before or (folder.parent / "outside.txt").read_text() != "secret":
        return f"touched what is outside the folder: {after}"
    return result


def fuzz(base: Path, name: str, seed: str, count: int) -> dict[str, Any]:
    target, sound, folder = TARGETS[name], base / "sound" / name, base / "cases" / "case"
    sound.mkdir(parents=True)
    target.make(sound)
    target.read(sound)
    counts: Counter[str] = Counter()
    faults, started = [], time.process_time()
    for number in range(count):
        random = Random(f"{seed}/{name}/{number}")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(sound, folder)
        target.damage(folder, random)
        (base / "current.txt").write_text(f"{name} {seed} {number}")
        result = check_case(target, folder, by_command=number % BY_COMMAND == 0)
        counts[result if result in ("read", "refused") else "faults"] += 1
        if result not in ("read", "refused"):
            kept = base / "found" / name / f"{seed}-{number}"
            shutil.copytree(folder, kept, symlinks=True, dirs_exist_ok=True)
            faults.append({"case": f"{name} {seed} {number}", "what": result[-3000:]})
    return {"target": name, **counts, "seconds": round(time.process_time() - started, 1), "found": faults}


def replay(base: Path, cases: Path) -> list[dict[str, Any]]:
    """Read all kept cases: ``<target>/<case>/<files>``."""
    folder, results = base / "cases" / "case", []
    for case in sorted(path for path in cases.glob("*/*") if path.is_dir()):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(case, folder)
        result = check_case(TARGETS[case.parent.name], folder, by_command=True)
        results.append({"case": f"{case.parent.name}/{case.name}", "what": result})
    return results


def main() -> None:
    base, seed, *wanted = sys.argv[1:]
    place = Path(base)
    (place / "cases").mkdir(parents=True)
    (place / "cases" / "outside.txt").write_text("secret")
    (place / "cases" / "evil.py").write_text(EVIL)
    bound_memory()
    for what in wanted:
        name, _, value = what.partition("=")
        found = replay(place, Path(value)) if name == "replay" else fuzz(place, name, seed, int(value))
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()

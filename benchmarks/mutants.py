"""Mutation tests of the code that must not be wrong: small faults are put in one by one, and a test must fail.

    python benchmarks/mutants.py                       # all targets of mutants.toml; appends to results/mutants.jsonl
    python benchmarks/mutants.py --only significance   # those with this in their path
    python benchmarks/mutants.py --again               # only the survivors of the last record, after tests were added
    python benchmarks/mutants.py --page                # writes docs/mutation-tests.md from the records

Beside the usual faults (comparisons, arithmetic, boolean operators, numbers, negated conditions, removed statements)
there are those that this package fears most: rows in another order, and two arguments swapped. A fault is written into
a copy of the sources, and the tests run in a fork of a process that has torch and scikit-learn imported already, so
that a mutant costs a second or two and real server processes see the fault as well.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mutations import Mutant, mutants

ROOT = Path(__file__).parents[1]
TARGETS = Path(__file__).with_suffix(".toml")
RECORDS = ROOT / "results" / "mutants.jsonl"
PAGE = ROOT / "docs" / "mutation-tests.md"
# What tests import and no mutant changes; polars is left out, whose threads do not survive a fork.
_PRELOADED = (
    "pytest", "hypothesis", "requests", "numpy", "scipy.stats", "scipy.optimize", "scipy.sparse.csgraph",
    "sklearn.datasets", "sklearn.metrics", "torch", "safetensors.torch", "numba", "pydantic", "typer", "rich.table",
    "fastapi", "uvicorn", "httpx", "anyio",
)  # fmt: skip


@dataclass(frozen=True)
class Target:
    """A file, the functions and classes of it that are mutated (all if there are none), and the tests of these."""

    file: str
    tests: tuple[str, ...]
    only: tuple[str, ...] = ()


def main() -> None:
    """Run mutants, or write the page."""
    parser = argparse.ArgumentParser(description="Mutation tests of critical code.")
    parser.add_argument("--only", default="", help="part of a target's path")
    parser.add_argument("--again", action="store_true", help="only survivors of the last record of the same source")
    parser.add_argument("--page", action="store_true", help="write docs/mutation-tests.md from the records")
    options = parser.parse_args()
    wanted = tomllib.loads(TARGETS.read_text(encoding="utf-8"))
    if options.page:
        PAGE.write_text(page(latest_records(), wanted["survivor"]), encoding="utf-8")
        return
    os.environ |= {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    sys.dont_write_bytecode = True
    for name in _PRELOADED:
        __import__(name)
    for target in (Target(t["file"], tuple(t["tests"]), tuple(t.get("only", ()))) for t in wanted["target"]):
        if options.only in target.file:
            record = tested(target, again=options.again)
            with RECORDS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")


def tested(target: Target, *, again: bool) -> dict[str, Any]:
    """Run the tests of a target on each of its mutants; return the record."""
    source = (ROOT / "src" / target.file).read_text(encoding="utf-8")
    digest = hashlib.sha256(source.encode()).hexdigest()
    began, survivors, timeouts, everything = time.monotonic(), [], 0, mutants(source, target.only)
    found = survived(everything, target.file, digest) if again else everything
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
        compiled_but(copy, copy / target.file)
        started = time.monotonic()
        if outcome(copy, target.tests, limit=600) != 0:
            sys.exit(f"{target.file}: its tests fail without any fault.")
        limit = max(60.0, 6 * (time.monotonic() - started))
        for number, mutant in enumerate(found, start=1):
            (copy / target.file).write_text(mutant.source, encoding="utf-8")
            code = outcome(copy, target.tests, limit)
            timeouts += code is None
            if code == 0:
                survivors.append({k: v for k, v in asdict(mutant).items() if k != "source"})
            said = "SURVIVES" if code == 0 else "killed"
            print(f"{target.file} {number}/{len(found)} {said}: {mutant.line}: {mutant.before} -> {mutant.after}")
            sys.stdout.flush()
    return {
        "file": target.file,
        "sha256": digest,
        "only": target.only,
        "tests": target.tests,
        "mutants": len(everything),
        "killed": len(everything) - len(survivors),
        "timeouts": timeouts,
        "survivors": survivors,
        "seconds": round(time.monotonic() - began),
    }


def survived(found: list[Mutant], file: str, digest: str) -> list[Mutant]:
    """Return the mutants that survived the last time, all of them if the source was another one."""
    last = next((record for record in latest_records() if record["file"] == file), None)
    if last is None or last["sha256"] != digest:
        return found
    known = {(one["line"], one["before"], one["after"]) for one in last["survivors"]}
    return [mutant for mutant in found if (mutant.line, mutant.before, mutant.after) in known]


def compiled_but(folder: Path, file: Path) -> None:
    """Compile all sources but one, whose bytecode must never be older than its fault."""
    import compileall

    compileall.compile_dir(folder, quiet=2)
    for cached in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
        cached.unlink()


def outcome(sources: Path, tests: Sequence[str], limit: float) -> int | None:
    """Return the exit code of pytest in a fork that imports from `sources`; None after the time limit."""
    child = os.fork()
    if child == 0:
        os.setsid()
        os.chdir(ROOT)
        os.environ["PYTHONPATH"] = str(sources)
        sys.path.insert(0, str(sources))
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        os._exit(_pytest(tests))
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            _end_group(child)  # a server that a failed test has left behind
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    _end_group(child)
    os.waitpid(child, 0)
    return None


def _pytest(tests: Sequence[str]) -> int:
    import pytest

    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:schemathesis", "--hypothesis-seed=0"]
    try:
        return int(pytest.main([*options, *tests]))
    except BaseException:  # a mutant may end in any way
        return 1


def _end_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def latest_records() -> list[dict[str, Any]]:
    """Return the last record of each file."""
    lines = RECORDS.read_text(encoding="utf-8").splitlines() if RECORDS.exists() else []
    return list({record["file"]: record for record in map(json.loads, lines)}.values())


def page(records: Sequence[dict[str, Any]], reasons: Sequence[dict[str, str]]) -> str:
    """Return the page: what was tried, and every survivor with the reason why it may live."""
    lines = [
        "# Mutation tests",
        "",
        "A test suite that passes may still miss faults. Here small faults are put one by one into the code that must "
        "not be wrong, and the tests of that code must fail for each: the order of predicted rows, selection on the "
        "dev set, clean test rows, significance tests, access by token, and written tables.",
        "",
        "`make test-mutants` repeats it and writes this page from `results/mutants.jsonl`; "
        "`python benchmarks/mutants.py --only NAME` tries one file. The faults: a comparison, an arithmetic or a "
        "boolean operator exchanged, a condition negated, a number changed by one, a statement removed, an iteration "
        "or a result reversed, two arguments swapped. Texts of messages are left alone. Faults that change "
        "an order are among them, since an answer in the wrong row is the worst that `predict` could do.",
        "",
        "| file | faults | found by a test | survive |",
        "|---|---:|---:|---:|",
    ]
    for record in records:
        name = f"`{record['file'].removeprefix('multidomain/')}`"
        if record["only"]:
            name += f" ({', '.join(f'`{part}`' for part in record['only'])})"
        lines.append(f"| {name} | {record['mutants']} | {record['killed']} | {len(record['survivors'])} |")
    total = [sum(record[key] for record in records) for key in ("mutants", "killed")]
    lines += [f"| **all** | {total[0]} | {total[1]} | {total[0] - total[1]} |", "", "## Survivors", ""]
    lines += ["| where | fault | why it may live |", "|---|---|---|"]
    for record in records:
        source = (ROOT / "src" / record["file"]).read_text(encoding="utf-8")
        if hashlib.sha256(source.encode()).hexdigest() != record["sha256"]:
            sys.exit(f"{record['file']} has changed since its record: run its mutants again.")
        for one in record["survivors"]:
            code = source.splitlines()[one["line"] - 1].strip()
            fault = f"`{_cell(one['before'])}` -> `{_cell(one['after'])}`"
            where = f"`{record['file'].removeprefix('multidomain/')}`: `{_cell(code)}`"
            lines.append(f"| {where} | {fault} | {_reason(record['file'], one, code, reasons)} |")
    return "\n".join(lines) + "\n"


def _reason(file: str, survivor: dict[str, Any], code: str, reasons: Sequence[dict[str, str]]) -> str:
    """Return why a survivor may live; `in` is a part of its line, where the fault alone says too little."""
    for one in reasons:
        same = (one["file"], one["before"], one["after"]) == (file, survivor["before"], survivor["after"])
        if same and one.get("in", "") in code:
            return one["reason"]
    return "not looked at yet"


def _cell(code: str) -> str:
    return code.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    main()

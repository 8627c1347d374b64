"""Real clusters of processes on this machine, with two workers of one core each, and what is done to them."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from multidomain.bench.processes import descendants, has_model_open

ON = [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("dask", "ray", "spark")]
SITE = next(path for path in sys.path if path.endswith("site-packages"))
_STARTS_WITHIN = 90  # seconds


@dataclass(frozen=True)
class Process:
    """A process with all of its children, and what it has printed."""

    running: subprocess.Popen[bytes]
    log: Path

    def printed(self, pattern: str) -> str:
        """Wait until it prints this, and return the first group."""
        deadline = time.monotonic() + _STARTS_WITHIN
        while not (found := re.search(pattern, self.log.read_text())):
            assert self.running.poll() is None and time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)
        return found[found.re.groups]


@dataclass(frozen=True)
class Cluster:
    """A cluster that runs."""

    engine: str
    address: str
    processes: tuple[Process, ...]

    @property
    def options(self) -> list[str]:
        return ["--engine", self.engine, "--address", self.address]

    def pids(self) -> list[int]:
        return [pid for one in self.processes for pid in (one.running.pid, *descendants(one.running.pid))]

    def workers(self) -> list[int]:
        """The processes that have loaded a model."""
        return [pid for pid in self.pids() if has_model_open(pid)]


@contextmanager
def started(*command: str, limit: str = "", **env: str) -> Iterator[Process]:
    """Run a command in a session of its own, which is killed at the end; bash runs a limit before, such as `ulimit`."""
    whole = ["bash", "-c", f'{limit}; exec "$@"', "bash", *command] if limit else list(command)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as file:
            running = subprocess.Popen(
                whole, stdout=file, stderr=file, env={**os.environ, **env}, start_new_session=True
            )
        try:
            yield Process(running, log)
        finally:
            for pid in [running.pid, *descendants(running.pid)]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            running.wait()


def python(module: str, *arguments: str, flags: Sequence[str] = (), first: str = "") -> list[str]:
    """Return the command that runs a module, and some Python before it."""
    code = f"import runpy, sys; sys.argv[0] = {module!r}\n{first}\nrunpy.run_module({module!r}, run_name='__main__')"
    return [sys.executable, *flags, "-c", code, *arguments]


@contextmanager
def dask_cluster(*workers: dict[str, str], flags: Sequence[str] = (), first: str = "") -> Iterator[Cluster]:
    """A scheduler, before which some Python runs, and workers with such flags that are started as `started` says."""
    with ExitStack() as stack:
        at = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        main = stack.enter_context(started(*python("distributed.cli.dask_scheduler", *at, first=first)))
        address = main.printed(r"Scheduler at:\s+(tcp://\S+)")
        each = ("--nthreads", "1", "--no-dashboard")
        command = python("distributed.cli.dask_worker", address, *each, flags=flags)
        found = [stack.enter_context(started(*command, **how)) for how in workers or ({}, {})]
        for worker in found:
            worker.printed("Registered to")
        yield Cluster("dask", address, tuple(found))


@contextmanager
def ray_cluster(*, first: str = "") -> Iterator[Cluster]:
    """A head and another node of one core each; before the head this Python runs."""
    address = f"127.0.0.1:{free_port()}"
    node = ("ray.scripts.scripts", "start", "--num-cpus", "1", "--object-store-memory", "100000000", "--block")
    node += ("--node-ip-address", "127.0.0.1")
    head = ("--head", "--port", address.rpartition(":")[2], "--include-dashboard", "false")
    with ExitStack() as stack:
        found = [stack.enter_context(started(*python(*node, *head, first=first)))]
        found[0].printed("Ray runtime started")
        found.append(stack.enter_context(started(*python(*node, "--address", address, first=first))))
        found[1].printed("Ray runtime started")
        yield Cluster("ray", address, tuple(found))


@contextmanager
def spark_cluster() -> Iterator[Cluster]:
    """A master and two workers of one core each, all of them Java processes that start those of Python."""
    import pyspark

    home, address = Path(pyspark.__file__).parent, f"spark://127.0.0.1:{free_port()}"
    java = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    run = (str(home / "bin" / "spark-class"), "org.apache.spark.deploy.")
    with ExitStack() as stack:
        head = ("--host", "127.0.0.1", "--port", address.rpartition(":")[2])
        main = stack.enter_context(started(run[0], run[1] + "master.Master", *head, **java))
        main.printed("New state: ALIVE")
        found = []
        for _ in range(2):
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            small = ("--cores", "1", "--memory", "1g", "--host", "127.0.0.1", "--work-dir", folder)
            found.append(stack.enter_context(started(run[0], run[1] + "worker.Worker", *small, address, **java)))
            found[-1].printed("Successfully registered")
        yield Cluster("spark", address, tuple(found))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


CLUSTERS = {"dask": dask_cluster, "ray": ray_cluster, "spark": spark_cluster}

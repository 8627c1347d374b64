"""What workers need to know of a run: with its config they read the same data as the driver."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Self

from multidomain.code import check_code, code_hash
from multidomain.errors import ConfigError
from multidomain.features.base import Documents
from multidomain.runs.config import TrainConfig
from multidomain.runs.plan import Plan, plan_run


@dataclass(frozen=True)
class Job:
    """What the tasks of a run have in common.

    Attributes
    ----------
    config
        The given settings, as JSON.
    data, code
        Hashes of the data and of the package, as the driver has them.
    folder
        Where relative paths begin.
    """

    config: str
    smoke: bool
    data: str
    code: str
    folder: Path

    @classmethod
    def of(cls, plan: Plan) -> Self:
        """Return the job of a plan of this process."""
        config = plan.config.model_dump(mode="json", exclude_unset=True, exclude_none=True)
        return cls(json.dumps(config), plan.smoke, plan.corpus.content_hash(), code_hash(), Path.cwd())


@contextmanager
def begun(job: Job) -> Iterator[tuple[Plan, Documents]]:
    """Work on a job in its folder, with its data and their documents, which the tasks in a process analyse once."""
    check_code(job.code)
    with chdir(job.folder):
        yield _prepared(job)


@lru_cache(maxsize=1)
def _prepared(job: Job) -> tuple[Plan, Documents]:
    plan = plan_run(TrainConfig.parse_all(json.loads(job.config)), smoke=job.smoke)
    if plan.corpus.content_hash() != job.data:
        raise ConfigError(
            f"A worker reads other data under the name '{plan.config.data}' than the process that keeps the results.",
            "Give all machines the same files.",
        )
    return plan, Documents(plan.corpus.documents)

"""How data is read and split."""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator

from multidomain.settings import Settings


class ReadingSettings(Settings):
    """How to read the data."""

    text_column: str | None = Field(None, description="column with the text; auto-detected by default")
    label_column: str | None = Field(
        None, description="column with the class, empty in unlabelled rows; auto-detected by default"
    )
    domain_column: str | None = Field(None, description="column with the domain; auto-detected by default")
    split_column: str | None = Field(
        None, description="column that says train, dev, test or unlabelled; auto-detected by default"
    )
    weight_column: str | None = Field(
        None, description="column with the weights of labelled rows in training; by default all count alike"
    )
    encoding: str = Field("utf-8", description="encoding of text files")
    drop_empty: bool = Field(False, description="drop rows without text")
    dev: str | None = Field(None, description="file with the dev set")
    test: str | None = Field(None, description="file with the test set")
    text_only: str | None = Field(None, description="file with further unlabelled text")
    labels: tuple[str, ...] = Field(
        (), description="table of text, label and domain whose labels are filled into the data; may be repeated"
    )

    @field_validator("labels", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value


class SplitSettings(Settings):
    """How to split a corpus; together with the corpus it decides the split."""

    fold: int | None = Field(None, ge=0, description="run of the 5-fold protocol, 0 to 4; by default rows are held out")
    unlabelled: tuple[str, ...] = Field((), description="domains whose labels training must not see")
    seed: int = Field(0, ge=0, lt=2**32, description="seed of the split")

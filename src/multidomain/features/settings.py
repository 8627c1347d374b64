"""Settings of featurizers."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field, field_validator

from multidomain.settings import Settings, listed

LONGEST_NGRAM = 1000

Weighting: TypeAlias = Literal["counts", "tfidf", "raw"]


class NgramSettings(Settings):
    """N-grams of a document; None is the method's default."""

    weighting: Weighting | None = Field(
        None, description="counts or tfidf of n-grams, or raw: vectors as they are; by default the method's own"
    )
    max_features: int | None = Field(
        None, ge=1, description="vocabulary size, most frequent n-grams first; by default the method's own"
    )
    ngram_range: Annotated[tuple[int, int] | None, BeforeValidator(listed)] = Field(
        None, description="shortest and longest n-gram; by default the method's own"
    )

    min_df: int = Field(1, ge=1, description="drop n-grams that occur in fewer documents")

    @field_validator("ngram_range")
    @classmethod
    def _shortest_first(cls, value: tuple[int, int] | None) -> tuple[int, int] | None:
        if value is not None and not 1 <= value[0] <= value[1] <= LONGEST_NGRAM:
            raise ValueError(f"expected the shortest n-gram, at least 1, and the longest, at most {LONGEST_NGRAM}")
        return value


class SequenceSettings(Settings):
    """The token sequence of a document, for extractors such as cnn and lstm."""

    max_words: int = Field(50_000, ge=2, lt=2**31, description="vocabulary size of token sequences")
    min_count: int = Field(2, ge=1, description="drop rarer words")
    max_length: int | None = Field(
        None, ge=1, lt=2**31, description="truncate texts after this many words; by default never"
    )
    vectors: str | None = Field(
        None, description="file of word vectors, or 'random'; by default trained on the training and unlabelled text"
    )


class SubwordSettings(Settings):
    """The subwords of a document, for pretrained encoders."""

    max_subwords: int = Field(
        128, ge=8, lt=2**20, description="truncate texts for pretrained encoders to this many subwords"
    )
    truncation: Literal["head", "head+tail"] = Field(
        "head+tail", description="what is kept of a long text: its beginning, or its beginning and its end"
    )


SECTIONS: dict[str, type[Settings]] = {
    "ngrams": NgramSettings,
    "sequences": SequenceSettings,
    "subwords": SubwordSettings,
}
"""Settings of this package's featurizers, by their names; here, so that they can be listed without importing them."""

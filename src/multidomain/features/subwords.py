"""Documents as subwords of a pretrained encoder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from multidomain.arrays import ArrayWriter
from multidomain.data.encoders.folder import EncoderFolder, digest_of, open_encoder
from multidomain.data.encoders.named import ENCODERS
from multidomain.errors import ConfigError, Note, counted, missing_package
from multidomain.features.base import Featurizer, State, register
from multidomain.features.settings import SubwordSettings
from multidomain.stages import stage

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_TEXTS_AT_A_TIME = 1000
_MEANINGLESS = ("[UNK]", "<unk>", "[PAD]", "<pad>")
_HEAD = 0.5  # share of the subwords that is the beginning, with head+tail


class _Settings(SubwordSettings):
    """As above, and whose subwords they are, which the method says."""

    source: str = ""
    allow_download: bool = False


class _State(BaseModel):
    """The settings of a fitted featurizer, as a saved model holds them."""

    max_subwords: int = Field(ge=8, lt=2**20)
    truncation: Literal["head", "head+tail"]
    n_inputs: int = Field(ge=1, lt=2**24)
    tokenizer: dict[str, Any]


@register("subwords")
class SubwordFeaturizer(Featurizer):
    """Documents to the subwords that a pretrained encoder reads, between its marks of beginning and end.

    The encoder's own tokenizer does all of it, lower-casing included, and is saved with the model. A row of the matrix
    that `transform` returns holds the subwords of a document as they come: its column indices are neither sorted nor
    unique, and all values are 1. An empty document is a row of the two marks or, where a tokenizer has no marks, of one
    subword that means nothing.

    Parameters
    ----------
    max_subwords : int, default=128
        Truncate documents to this many subwords, marks included.
    truncation : {"head", "head+tail"}, default="head+tail"
        Keep the beginning of a long document, or as much of its beginning as of its end.
    source : str
        The encoder: a name or a folder.

    Attributes
    ----------
    n_inputs : int
        Number of subwords that the encoder knows; 0 before `fit`.
    vocabulary : list of str or None
        The subwords.
    """

    settings_type = _Settings
    of_method = ("source", "allow_download")

    def __init__(
        self,
        max_subwords: int = 128,
        truncation: Literal["head", "head+tail"] = "head+tail",
        source: str = "",
        allow_download: bool = False,
    ) -> None:
        self.max_subwords = max_subwords
        self.truncation = truncation
        self.source = source
        self.allow_download = allow_download
        self._truncated = (0, 0)  # of the last documents, and how many they were

    @classmethod
    def from_settings(cls, settings: Any) -> Self:
        return cls(**settings.model_dump())

    @property
    def description(self) -> str:
        return "subwords"

    @property
    def notes(self) -> tuple[Note, ...]:
        truncated, texts = self._truncated
        if not truncated:
            return ()
        kept = "beginnings" if self.truncation == "head" else "beginnings and ends"
        return (
            Note(
                f"{counted(truncated, 'text')} of {texts:,} have more than {self.max_subwords} subwords; the encoder "
                f"reads their {kept}.",
                "{max_subwords=N} lets it read more.",
                kind="truncated",
            ),
        )

    @property
    def stand_in(self) -> str | None:
        for word in ("[MASK]", "<mask>", "[UNK]", "<unk>"):
            if self._tokenizer.token_to_id(word) is not None:
                return word
        return None

    def check(self) -> None:
        if self.source not in ENCODERS and not self.allow_download:
            self._check_length(open_encoder(self.source))

    def files_digest(self) -> str | None:
        return digest_of(self.source, allow_download=self.allow_download)

    def fit(self, documents: Any) -> Self:
        """Read the encoder's tokenizer; nothing is learnt from the documents."""
        self._check_texts(documents)
        folder = open_encoder(self.source, allow_download=self.allow_download)
        self._check_length(folder)
        self._set_tokenizer(folder.tokenizer, folder.config.vocabulary)
        return self

    def _check_length(self, folder: EncoderFolder) -> None:
        longest = folder.config.longest
        if self.max_subwords > longest:
            raise ConfigError(
                f"The encoder '{self.source}' reads at most {longest} subwords of a text, and {self.max_subwords} are "
                "asked for.",
                f"Use {{max_subwords={longest}}}.",
            )

    def _set_tokenizer(self, description: dict[str, Any], n_inputs: int) -> None:
        self._description = description
        self.n_inputs = n_inputs
        self._tokenizer = _tokenizer(description)
        of_words = self._tokenizer.get_vocab()
        outside = [word for word, number in of_words.items() if number >= n_inputs]
        if outside:
            raise ConfigError(
                f"The tokenizer of the encoder has {len(of_words):,} subwords, and its weights {n_inputs:,}: they do "
                "not belong together."
            )
        words = [f"[{number}]" for number in range(n_inputs)]
        for word, number in of_words.items():
            words[number] = word.replace("\n", "\\n")
        self.vocabulary = words
        marked = self._tokenizer.encode("a")
        inside = [i for i, mark in enumerate(marked.special_tokens_mask) if not mark]
        first, last = (inside[0], inside[-1] + 1) if inside else (len(marked.ids), len(marked.ids))
        self._begin, self._end = marked.ids[:first], marked.ids[last:]
        known = [of_words[word] for word in _MEANINGLESS if word in of_words]
        self._nothing = known[0] if known else 0  # what an encoder reads of no subwords is not a number

    def transform(self, documents: Any) -> sp.csr_matrix:
        """Return the subwords of each document."""
        if not self.n_inputs:
            from sklearn.exceptions import NotFittedError

            raise NotFittedError("SubwordFeaturizer is not fitted: call fit() first.")
        self._check_texts(documents)
        ids, offsets = ArrayWriter(np.int32), np.zeros(len(documents) + 1, dtype=np.int64)
        truncated = row = 0
        parts = range(0, len(documents), _TEXTS_AT_A_TIME)
        for start in stage("subwords", parts, len(parts)):
            texts = [_text(text) for text in documents[start : start + _TEXTS_AT_A_TIME]]
            for encoding in self._tokenizer.encode_batch(texts, add_special_tokens=False):
                own = self._cut(encoding.ids)
                truncated += len(own) < len(encoding.ids)
                whole = [*self._begin, *own, *self._end] or [self._nothing]
                ids.append(np.array(whole, dtype=np.int32))
                row += 1
                offsets[row] = offsets[row - 1] + len(whole)
        self._truncated = (truncated, len(documents))
        indices = ids.finish()
        return sp.csr_matrix(
            (np.ones(len(indices), dtype=np.float32), indices, offsets), shape=(len(documents), self.n_inputs)
        )

    def _cut(self, ids: list[int]) -> list[int]:
        """Return the subwords that are kept of a document."""
        room = self.max_subwords - len(self._begin) - len(self._end)
        if len(ids) <= room:
            return ids
        if self.truncation == "head":
            return ids[:room]
        head = round(room * _HEAD)
        return ids[:head] + ids[len(ids) - (room - head) :]

    @staticmethod
    def _check_texts(documents: Any) -> None:
        if sp.issparse(documents):
            raise ConfigError("A pretrained encoder reads texts, and these are vectors.", "Use {extractor=mlp}.")

    def to_state(self) -> State:
        return {
            "max_subwords": self.max_subwords,
            "truncation": self.truncation,
            "n_inputs": self.n_inputs,
            "tokenizer": self._description,
        }, {}

    @classmethod
    def from_state(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        state = _State.model_validate(settings)
        subwords = cls(state.max_subwords, state.truncation)
        subwords._set_tokenizer(state.tokenizer, state.n_inputs)
        return subwords


def _tokenizer(description: Mapping[str, Any]) -> Tokenizer:
    """Return the tokenizer of a tokenizer.json, which neither cuts nor pads.

    Raises
    ------
    ConfigError
        It describes none.
    """
    try:
        from tokenizers import Tokenizer
    except ModuleNotFoundError:
        raise missing_package("The extractor 'encoder'", "tokenizers") from None
    try:
        tokenizer = Tokenizer.from_str(json.dumps(description))
    except BaseException as error:  # a panic of its compiled code is no Exception
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        why = str(error)[:300]
        raise ConfigError(f"The tokenizer.json of the encoder does not describe a tokenizer ({why}).") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _text(text: Any) -> str:
    """Return a text without halves of surrogate pairs, which no tokenizer takes."""
    text = "" if text is None else str(text)
    return text if text.isascii() else text.encode("utf-8", "replace").decode()

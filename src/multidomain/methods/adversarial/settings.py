"""Which feature extractor a network has, and its sizes."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from multidomain.errors import quoted
from multidomain.nn.extractors.base import Extractor
from multidomain.nn.extractors.lstm import LSTMExtractor
from multidomain.nn.extractors.mlp import MLPExtractor
from multidomain.settings import Settings, listed

Widths = Annotated[tuple[Annotated[int, Field(ge=1)], ...], BeforeValidator(listed)]


class ExtractorSettings(Settings):
    """The extractor and its sizes; the defaults are those of the paper's appendix.

    ``mlp`` reads n-grams and has hidden layers (`hidden`). The others read words in their order, as vectors of length
    `dimension` that are learnt on (`tune_vectors`) or left as they are: ``cnn`` with `filters` of each of the
    `kernel_sizes`; ``lstm``, ``bilstm`` and ``bilstm-attention`` with states of width `state`.
    """

    extractor: Literal["mlp", "cnn", "lstm", "bilstm", "bilstm-attention"] = Field(
        "mlp", description="mlp reads n-grams; cnn, lstm, bilstm and bilstm-attention read words in their order"
    )
    hidden: Widths = Field((1000, 500), description="widths of the hidden layers of mlp")
    kernel_sizes: Widths = Field((3, 4, 5), description="words that a filter of cnn spans")
    filters: int = Field(200, ge=1, description="of each kernel size")
    state: int = Field(128, ge=1, description="width of the state of lstm")
    dimension: int = Field(100, ge=1, description="length of word vectors")
    tune_vectors: bool = Field(True, description="go on learning word vectors")
    dropout: float = Field(0.4, ge=0, lt=1)

    @model_validator(mode="after")
    def _sizes_have_an_effect(self) -> Self:
        of_extractor = {"mlp": ("hidden", "private_hidden"), "cnn": ("kernel_sizes", "filters"), "lstm": ("state",)}
        mine = self.extractor.removeprefix("bi").removesuffix("-attention")
        idle = [name for kind, names in of_extractor.items() if kind != mine for name in names]
        if self.extractor == "mlp":
            idle += ["dimension", "tune_vectors"]
        fields = type(self).model_fields
        given = [name for name in idle if name in fields and getattr(self, name) != fields[name].default]
        if given:
            raise ValueError(f"{quoted(given)} has no effect with extractor '{self.extractor}'; leave it out")
        return self

    @property
    def reads_words(self) -> bool:
        """Tell whether documents are read as words in their order, and not as bags of n-grams."""
        return self.extractor != "mlp"

    @property
    def runs_on_cpu_only(self) -> bool:
        """Tell whether there is no implementation for other devices."""
        return self.extractor == "cnn"

    def make(self, copies: int, n_inputs: int, n_outputs: int, hidden: tuple[int, ...] | None = None) -> Extractor:
        """Return an extractor; `hidden` takes the place of the setting."""
        extractor = self._made(copies, n_inputs, n_outputs, hidden)
        extractor.table.requires_grad_(self.tune_vectors)
        return extractor

    def _made(self, copies: int, n_inputs: int, n_outputs: int, hidden: tuple[int, ...] | None) -> Extractor:
        if self.extractor == "cnn":
            from multidomain.nn.extractors.cnn import CNNExtractor  # here: the others must not wait for a compiler

            sizes = (self.dimension, self.kernel_sizes, self.filters)
            return CNNExtractor(copies, n_inputs, *sizes, n_outputs, self.dropout)
        if self.reads_words:
            return LSTMExtractor(
                copies,
                n_inputs,
                self.dimension,
                self.state,
                n_outputs,
                self.dropout,
                both_directions=self.extractor != "lstm",
                attention=self.extractor == "bilstm-attention",
            )
        return MLPExtractor(copies, n_inputs, self.hidden if hidden is None else hidden, n_outputs, self.dropout)

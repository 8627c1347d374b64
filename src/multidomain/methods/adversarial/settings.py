"""Which feature extractor a network has, and its sizes."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from multidomain.errors import quoted
from multidomain.methods.base import Requirements
from multidomain.nn.extractors.base import EXTRACTORS, Extractor, ExtractorEntry
from multidomain.settings import Searched, Settings, listed

Widths = Annotated[tuple[Annotated[int, Field(ge=1)], ...], BeforeValidator(listed)]


class ExtractorSettings(Settings):
    """The extractor and its sizes; the defaults are those of the paper's appendix.

    ``mlp`` reads n-grams and has hidden layers (`hidden`). The others read token sequences, as word vectors of length
    `dimension` that are fine-tuned (`tune_vectors`) or frozen: ``cnn`` with `filters` of each of the `kernel_sizes`;
    ``lstm``, ``bilstm`` and ``bilstm-attention`` with states of width `state`.
    """

    extractor: str = Field("mlp", description="mlp reads n-grams; cnn, lstm, bilstm, bilstm-attention token sequences")
    hidden: Widths = Field((1000, 500), description="widths of the hidden layers of mlp")
    kernel_sizes: Widths = Field((3, 4, 5), description="kernel sizes of cnn, in words")
    filters: int = Field(200, ge=1, description="filters of each kernel size")
    state: int = Field(128, ge=1, description="width of the state of lstm")
    dimension: int = Field(100, ge=1, description="length of word vectors")
    tune_vectors: bool = Field(True, description="fine-tune word vectors")
    dropout: Annotated[float, Searched("0..0.7")] = Field(0.4, ge=0, lt=1, description="dropout probability")

    @field_validator("extractor")
    @classmethod
    def _is_registered(cls, name: str) -> str:
        EXTRACTORS.find(name)
        return name

    @model_validator(mode="after")
    def _sizes_have_an_effect(self) -> Self:
        of_extractors = {name for entry in EXTRACTORS.values() for name in entry.uses}
        fields = type(self).model_fields
        idle = [name for name in fields if name in of_extractors and name not in self.extractor_entry.uses]
        given = [name for name in idle if getattr(self, name) != fields[name].default]
        if given:
            raise ValueError(f"{quoted(given)} has no effect with extractor '{self.extractor}'; leave it out")
        return self

    @property
    def extractor_entry(self) -> ExtractorEntry:
        """Return the extractor behind the name."""
        return EXTRACTORS[self.extractor]

    def requirements(self, *, shared: bool, private: bool, unlabelled_text: bool) -> Requirements:
        """Return what a network asks for that has this extractor, and has shared or private features, or both."""
        extractor = self.extractor_entry.extractor
        return Requirements(
            featurizer=extractor.featurizer,
            devices=extractor.devices,
            unlabelled_text=unlabelled_text,
            in_epochs=True,
            is_random=True,
            unseen_domains=shared,
            shared_features=shared,
            private_features=private,
            several_processes=True,
            input_dimension=self.dimension if "dimension" in self.extractor_entry.uses else 0,
        )

    def make(self, copies: int, n_inputs: int, n_outputs: int) -> Extractor:
        """Return an extractor."""
        entry = self.extractor_entry
        extractor = entry.extractor.from_settings(self, copies, n_inputs, n_outputs, **entry.options)
        extractor.table.requires_grad_(self.tune_vectors)
        return extractor

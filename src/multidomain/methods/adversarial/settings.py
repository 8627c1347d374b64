"""Which feature extractor a network has, and its sizes."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from multidomain.data.encoders.folder import open_encoder
from multidomain.errors import quoted
from multidomain.methods.base import Requirements
from multidomain.nn.encoders.pretrained import pretrained
from multidomain.nn.encoders.settings import EncoderSettings
from multidomain.nn.encoders.transformer import Transformer
from multidomain.nn.encoders.trunk import Trunk
from multidomain.nn.extractors.base import EXTRACTORS, Extractor, ExtractorEntry
from multidomain.settings import Searched, Settings, listed

Widths = Annotated[tuple[Annotated[int, Field(ge=1)], ...], BeforeValidator(listed)]


class ExtractorSettings(Settings):
    """The extractor and its sizes; the defaults are those of the paper's appendix.

    ``mlp`` reads n-grams and has hidden layers (`hidden`). The others read token sequences, as word vectors of length
    `dimension` that are fine-tuned (`tune_vectors`) or frozen: ``cnn`` with `filters` of each of the `kernel_sizes`;
    ``lstm``, ``bilstm`` and ``bilstm-attention`` with states of width `state`. ``encoder`` is a pretrained encoder.
    """

    extractor: str = Field(
        "mlp",
        description="mlp reads n-grams; cnn, lstm, bilstm, bilstm-attention token sequences; encoder is pretrained",
    )
    hidden: Widths = Field((1000, 500), description="widths of the hidden layers of mlp")
    kernel_sizes: Widths = Field((3, 4, 5), description="kernel sizes of cnn, in words")
    filters: int = Field(200, ge=1, description="filters of each kernel size")
    state: int = Field(128, ge=1, description="width of the state of lstm")
    dimension: int = Field(100, ge=1, description="length of word vectors")
    tune_vectors: bool = Field(True, description="fine-tune word vectors")
    dropout: Annotated[float, Searched("0..0.7")] = Field(0.4, ge=0, lt=1, description="dropout probability")
    encoder: EncoderSettings | None = Field(
        None, description="a pretrained encoder: minilm, mpnet or a folder, and how it is adapted and trained"
    )

    @model_validator(mode="before")
    @classmethod
    def _with_defaults_of_extractor(cls, values: Any) -> Any:
        """Fill in the defaults that an extractor has of its own."""
        name = values.get("extractor") if isinstance(values, dict) else None
        if not isinstance(name, str) or name not in EXTRACTORS:
            return values
        own = {key: value for key, value in EXTRACTORS[name].defaults.items() if key in cls.model_fields}
        return {**own, **values}

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
        if self.encoder is None and "encoder" in self.extractor_entry.uses:
            raise ValueError("the extractor 'encoder' needs to know which: encoder=minilm, mpnet or a folder")
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
            several_processes=extractor.several_processes,
            input_dimension=self.dimension if "dimension" in self.extractor_entry.uses else 0,
            features={} if self.encoder is None else self.encoder.model_dump(include={"source", "allow_download"}),
        )

    def make(self, copies: int, n_inputs: int, n_outputs: int) -> Extractor:
        """Return an extractor."""
        entry = self.extractor_entry
        extractor = entry.extractor.from_settings(self, copies, n_inputs, n_outputs, **entry.options)
        if extractor.table is not None:
            extractor.table.requires_grad_(self.tune_vectors)
        return extractor

    def of_shared(self) -> Self:
        """Return the settings of the shared extractor."""
        if self.encoder is None:
            return self
        return self._with_encoder(private="head", private_gradient=True)

    def with_trunk(self, *, has_shared: bool, has_private: bool) -> tuple[Self, Trunk | None]:
        """Return the settings with the shape of the pretrained encoder filled in, and the encoder, if there is one.

        It has its pretrained weights, unless its shape was known before: then a saved model is about to be loaded.
        """
        own = self.encoder
        if own is None:
            return self, None
        if own.config is None:
            folder = open_encoder(own.source, allow_download=own.allow_download)
            encoder = pretrained(folder.config, folder.weights)
        else:
            encoder = Transformer(own.config)
        has_private_layers = has_private and own.private != "head"
        trunk = Trunk(encoder, own, has_shared=has_shared, has_private_layers=has_private_layers)
        return self._with_encoder(config=encoder.config), trunk

    def _with_encoder(self, **changes: Any) -> Self:
        assert self.encoder is not None
        return self.model_copy(update={"encoder": self.encoder.model_copy(update=changes)})

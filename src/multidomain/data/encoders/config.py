"""The shape of a pretrained encoder, in one form for all families."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self, TypeAlias

from pydantic import Field, ValidationError, model_validator

from multidomain.errors import ConfigError, quoted
from multidomain.settings import Settings

Activation: TypeAlias = Literal["gelu", "gelu_tanh", "relu", "silu"]
Family: TypeAlias = Literal["bert", "distilbert", "mpnet", "roberta"]

FAMILIES: dict[str, Family] = {
    "bert": "bert",
    "camembert": "roberta",
    "distilbert": "distilbert",
    "mpnet": "mpnet",
    "roberta": "roberta",
    "xlm-roberta": "roberta",
}
"""The `model_type` of a config.json that can be read, and how its layers are built and named."""

_ACTIVATIONS: dict[str, Activation] = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
# Names in a config.json, where families differ; those of BERT are the rule.
_DISTILBERT = {
    "hidden_size": "dim",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "intermediate_size": "hidden_dim",
    "hidden_act": "activation",
}


FARTHEST = 128
"""Subwords apart, from which all relative positions are one."""


class EncoderConfig(Settings):
    """The shape of a pretrained encoder.

    Attributes
    ----------
    positions, first_position
        Rows of the table of positions, and that of a text's first subword.
    types
        Rows of the table of segment types; 0 if there is none.
    inner
        Width of the hidden layer inside each layer.
    relative_buckets
        Rows of the table of relative positions; 0 if there is none.
    """

    family: Family
    vocabulary: int = Field(ge=1, lt=2**24)
    positions: int = Field(ge=1, lt=2**20)
    first_position: int = Field(0, ge=0)
    types: int = Field(0, ge=0, lt=2**10)
    width: int = Field(ge=1, lt=2**16)
    layers: int = Field(ge=1, lt=2**10)
    heads: int = Field(ge=1, lt=2**10)
    inner: int = Field(ge=1, lt=2**20)
    activation: Activation = "gelu"
    eps: float = Field(1e-12, gt=0)
    relative_buckets: int = Field(0, ge=0, lt=2**10)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"{self.heads} attention heads cannot share a width of {self.width}")
        if self.first_position >= self.positions:
            raise ValueError("there is no position for the first subword")
        # Near positions have buckets of their own, a quarter of all; the farthest begins at 128.
        if self.relative_buckets and not 4 <= self.relative_buckets < 4 * FARTHEST:
            raise ValueError(
                f"{self.relative_buckets} buckets of relative positions; there can be 4 to {4 * FARTHEST - 1}"
            )
        return self

    @property
    def longest(self) -> int:
        """Return how many subwords of a text it can read."""
        return self.positions - self.first_position

    @classmethod
    def of(cls, content: Mapping[str, Any], what: str) -> Self:
        """Return the shape that a config.json describes; `what` names the file in messages.

        Raises
        ------
        ConfigError
            It is of another family, or a number is missing or makes no sense.
        """
        family = FAMILIES.get(str(content.get("model_type")))
        if family is None:
            raise ConfigError(
                f"{what} describes a model of the type '{content.get('model_type')}', which cannot be read.",
                f"Use an encoder of one of these types: {quoted(FAMILIES)}.",
            )
        kind = content.get("position_embedding_type", "absolute")
        if kind != "absolute":
            raise ConfigError(f"{what} asks for positions of the type '{kind}'; only 'absolute' can be read.")
        names = _DISTILBERT if family == "distilbert" else {}
        activation = str(content.get(names.get("hidden_act", "hidden_act"), "gelu"))
        if activation not in _ACTIVATIONS:
            raise ConfigError(f"{what} asks for the activation '{activation}'; valid: {quoted(_ACTIVATIONS)}.")

        def number(name: str) -> Any:
            return content.get(names.get(name, name))

        try:
            return cls(
                family=family,
                vocabulary=number("vocab_size"),
                positions=number("max_position_embeddings"),
                # These number positions after the padding's.
                first_position=int(content.get("pad_token_id", 1)) + 1 if family in ("mpnet", "roberta") else 0,
                types=content.get("type_vocab_size", 2) if family in ("bert", "roberta") else 0,
                width=number("hidden_size"),
                layers=number("num_hidden_layers"),
                heads=number("num_attention_heads"),
                inner=number("intermediate_size"),
                activation=_ACTIVATIONS[activation],
                eps=content.get("layer_norm_eps", 1e-12),
                relative_buckets=content.get("relative_attention_num_buckets", 32) if family == "mpnet" else 0,
            )
        except (ValidationError, TypeError, ValueError) as error:
            fault = error.errors()[0] if isinstance(error, ValidationError) else None
            why = f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" if fault else error
            raise ConfigError(f"{what} does not describe an encoder ({why}).") from None

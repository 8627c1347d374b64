"""How a pretrained encoder is adapted and trained."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationInfo, model_validator

from multidomain.data.encoders.config import EncoderConfig
from multidomain.settings import Searched, Settings


class EncoderSettings(Settings):
    """A pretrained encoder, its private parts, and how it is trained.

    Attributes
    ----------
    config
        The shape of the encoder, which is filled in when a network is made: a saved model needs no other folder. A user
        cannot give it, and a saved model always has it.
    """

    source: str = Field(description="minilm, mpnet, or a folder with config.json, tokenizer.json and safetensors")
    allow_download: bool = Field(False, description="look for other names on the Hugging Face Hub")
    private: Literal["head", "adapter", "lora"] = Field(
        "head",
        description="private features of a domain: a layer on the encoder's output (head), bottleneck adapters or "
        "low-rank updates of its upper layers",
    )
    private_layers: int = Field(2, ge=1, description="upper layers that have adapters or low-rank updates")
    rank: int = Field(8, ge=1, description="width of adapters, rank of low-rank updates")
    private_gradient: bool = Field(True, description="let private features train the encoder, too")
    frozen_layers: int | None = Field(
        None,
        ge=0,
        description="freeze the embeddings and this many lower layers, whose output is computed once; by default none",
    )
    lr: Annotated[float, Searched("1e-5..2e-4:log")] = Field(5e-5, gt=0, description="learning rate of the encoder")
    layer_decay: float = Field(1.0, gt=0, le=1, description="factor of the learning rate from a layer to that below")
    weight_decay: float = Field(0.01, ge=0, description="decoupled weight decay, of matrices")
    warm_up: float = Field(0.1, ge=0, lt=1, description="share of all steps in which learning rates rise from 0")
    schedule: Literal["linear", "constant"] = Field(
        "linear", description="learning rates after that: falling to 0 at the last of 'max_epochs', or constant"
    )
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout probability inside the encoder")
    tokens_at_a_time: int = Field(4096, ge=1, description="subwords that the encoder reads together, padding included")
    recompute: bool = Field(
        False, description="keep no activations for the backward pass: less memory, a third more time, the same result"
    )
    bfloat16: bool = Field(False, description="compute in bfloat16 where that is safe; weights stay in float32")
    config: EncoderConfig | None = None

    @model_validator(mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        """Read a name or a folder alone."""
        return {"source": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _shape_is_of_saved_models(self, info: ValidationInfo) -> Self:
        recorded = None if info.context is None else info.context.get("recorded")
        if recorded and self.config is None:
            raise ValueError("a saved model has the shape of its encoder, and this 'config' is missing")
        if recorded is False and self.config is not None:
            raise ValueError("'config' is read from the encoder's own config.json; leave it out")
        return self

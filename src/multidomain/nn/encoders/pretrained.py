"""Pretrained weights: the names that families give them, and reading them from safetensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from multidomain.data.encoders.config import EncoderConfig, Family
from multidomain.errors import ModelError, quoted
from multidomain.nn.encoders.transformer import Transformer
from multidomain.saved import read_tensors

_WAY_OUT = "Get the encoder again."
_OF_BERT = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "out": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "inner": "intermediate.dense",
    "outer": "output.dense",
    "norm": "output.LayerNorm",
}
_OF_MPNET = _OF_BERT | {
    "query": "attention.attn.q",
    "key": "attention.attn.k",
    "value": "attention.attn.v",
    "out": "attention.attn.o",
    "attention_norm": "attention.LayerNorm",
}
_OF_DISTILBERT = {
    "query": "attention.q_lin",
    "key": "attention.k_lin",
    "value": "attention.v_lin",
    "out": "attention.out_lin",
    "attention_norm": "sa_layer_norm",
    "inner": "ffn.lin1",
    "outer": "ffn.lin2",
    "norm": "output_layer_norm",
}
_LAYERS: dict[Family, tuple[str, dict[str, str]]] = {
    "bert": ("encoder.layer", _OF_BERT),
    "roberta": ("encoder.layer", _OF_BERT),
    "mpnet": ("encoder.layer", _OF_MPNET),
    "distilbert": ("transformer.layer", _OF_DISTILBERT),
}
_EMBEDDINGS = {
    "words.weight": "embeddings.word_embeddings.weight",
    "positions.weight": "embeddings.position_embeddings.weight",
    "types.weight": "embeddings.token_type_embeddings.weight",
    "norm.weight": "embeddings.LayerNorm.weight",
    "norm.bias": "embeddings.LayerNorm.bias",
    "relative.weight": "encoder.relative_attention_bias.weight",
}


def pretrained(config: EncoderConfig, files: Sequence[Path]) -> Transformer:
    """Return an encoder with the weights from safetensors files; others in the files, such as heads, are left out.

    Raises
    ------
    ModelError
        Weights are missing, damaged, or of another shape than the configuration says.
    """
    found: dict[str, Tensor] = {}
    for file in files:
        found |= _plain(read_tensors(file, "pt", _WAY_OUT)[0])
    with torch.device("meta"):  # no time is spent on weights that are about to be replaced
        encoder = Transformer(config)
    wanted = {name: (_original(name, config.family), value.shape) for name, value in encoder.state_dict().items()}
    where = files[0].parent
    missing = [original for original, _ in wanted.values() if original not in found]
    if missing:
        raise ModelError(f"The encoder in {where} lacks {quoted(missing, 4)}.", _WAY_OUT)
    bad = [original for original, shape in wanted.values() if found[original].shape != shape]
    if bad:
        shape = tuple(found[bad[0]].shape)
        raise ModelError(f"'{bad[0]}' of the encoder in {where} has the shape {shape}, not what its config.json says.")
    encoder.load_state_dict(
        {name: found[original].float().contiguous() for name, (original, _) in wanted.items()}, assign=True
    )
    return encoder


def _original(name: str, family: Family) -> str:
    """Return the name that a family gives a weight."""
    if name in _EMBEDDINGS:
        return _EMBEDDINGS[name]
    _, number, part, kind = name.split(".")
    prefix, names = _LAYERS[family]
    return f"{prefix}.{number}.{names[part]}.{kind}"


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors without the prefix of a model with heads (``bert.``) and under today's names of norms."""
    plain = {}
    for name, value in tensors.items():
        first, _, rest = name.partition(".")
        own = name if first in ("embeddings", "encoder", "transformer") else rest
        plain[own.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")] = value
    return plain

"""Small pretrained encoders for tests: random weights, and a WordPiece tokenizer of the words that tests use."""

from __future__ import annotations

import json
from pathlib import Path

from multidomain.data.encoders.config import EncoderConfig

WORDS = "a the of good bad fine poor great awful light heavy pan book film shoe and is was it so such"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
VOCABULARY = [*SPECIAL, *WORDS.split(), *LETTERS, *(f"##{letter}" for letter in LETTERS), ".", ",", "!", "?"]

SIZES = {
    "model_type": "bert",
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 160,
    "type_vocab_size": 2,
    "pad_token_id": 0,
}


def write_encoder(folder: Path, **sizes: object) -> Path:
    """Write a BERT of two layers of width 32 in the layout of Hugging Face."""
    import torch
    from safetensors.torch import save_file

    from multidomain.nn.encoders.pretrained import _original
    from multidomain.nn.encoders.transformer import Transformer

    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = list(dict.fromkeys(VOCABULARY))
    content = {**SIZES, "vocab_size": len(vocabulary), **sizes}
    (folder / "config.json").write_text(json.dumps(content))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(vocabulary)))
    config = EncoderConfig.of(content, "config.json")
    with torch.random.fork_rng():
        torch.manual_seed(7)
        encoder = Transformer(config)
    weights = {_original(name, config.family): value for name, value in encoder.state_dict().items()}
    save_file(weights, folder / "model.safetensors")
    return folder


def tokenizer(vocabulary: list[str]) -> dict[str, object]:
    """Return a tokenizer.json as BERT has it, with the cutting and padding that published ones bring along."""
    number = {word: i for i, word in enumerate(vocabulary)}
    marks = {mark: {"id": mark, "ids": [number[mark]], "tokens": [mark]} for mark in ("[CLS]", "[SEP]")}
    special = {"special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    sequence = [
        {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
    ]
    return {
        "version": "1.0",
        "truncation": {"max_length": 8, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
        "padding": {
            "strategy": {"Fixed": 8},
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "[PAD]",
        },
        "added_tokens": [{"id": number[word], "content": word, **special} for word in SPECIAL],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing", "single": sequence, "pair": sequence, "special_tokens": marks},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": number,
        },
    }

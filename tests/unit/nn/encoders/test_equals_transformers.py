"""The transformer here against that of the library `transformers`, for each family."""

import json

import pytest
import torch

from multidomain.data.encoders.folder import EncoderFolder
from multidomain.nn.encoders.pretrained import pretrained
from multidomain.nn.encoders.transformer import mean_of_text

transformers = pytest.importorskip("transformers")

COMMON = {"vocab_size": 60, "max_position_embeddings": 40}
SIZES = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48}
MODELS = {
    "bert": ("BertConfig", "BertModel", SIZES),
    "bert-tanh": ("BertConfig", "BertModel", {**SIZES, "hidden_act": "gelu_new"}),
    "roberta": ("RobertaConfig", "RobertaModel", {**SIZES, "pad_token_id": 1, "type_vocab_size": 1}),
    "xlm-roberta": ("XLMRobertaConfig", "XLMRobertaModel", {**SIZES, "pad_token_id": 1, "type_vocab_size": 1}),
    "mpnet": ("MPNetConfig", "MPNetModel", SIZES),
    "distilbert": ("DistilBertConfig", "DistilBertModel", {"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48}),
}


@pytest.mark.parametrize("name", MODELS)
def test_hidden_states_are_those_of_transformers(name, tmp_path):
    config, model, sizes = MODELS[name]
    torch.manual_seed(3)
    theirs = getattr(transformers, model)(getattr(transformers, config)(**COMMON, **sizes)).eval()
    with torch.no_grad():
        for p in theirs.parameters():  # norms and biases start at 1 and 0, which would hide a mix-up
            p.add_(torch.randn_like(p) * 0.1)
    theirs.save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_text(json.dumps({}))
    folder = EncoderFolder("tiny", tmp_path)
    ours = pretrained(folder.config, folder.weights)
    lengths = torch.tensor([20, 13, 1])
    is_text = torch.arange(20) < lengths[:, None]
    ids = torch.randint(3, 60, (3, 20)).masked_fill(~is_text, folder.config.first_position and 1)
    with torch.no_grad():
        expected = theirs(input_ids=ids, attention_mask=is_text.long()).last_hidden_state
        h = ours.run(ours.embed(ids), is_text, range(3))
        halves = ours.run(ours.run(ours.embed(ids), is_text, range(1)), is_text, range(1, 3))
    torch.testing.assert_close(h[is_text], expected[is_text], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(halves, h)
    torch.testing.assert_close(mean_of_text(h, is_text)[1], expected[1, :13].mean(dim=0), rtol=1e-5, atol=1e-5)

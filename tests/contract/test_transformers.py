"""Small models from transformers' own configurations, unmodified, through the oracle."""

from __future__ import annotations

import pytest
import torch
from tests import oracle
from tests.contract.test_architectures import numbered, same, stepped
from torch import nn

from fairweight.types import Batch

transformers = pytest.importorskip("transformers", reason="transformers is not installed")

SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


class T5Classifier(nn.Module):
    """T5's encoder, pooled: relative positions shared by all layers, and its own norm."""

    def __init__(self) -> None:
        super().__init__()
        sizes = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2}
        self.encoder = transformers.T5EncoderModel(transformers.T5Config(vocab_size=40, dropout_rate=0.0, **sizes))
        self.head = nn.Linear(16, 3)

    def forward(self, input_ids, attention_mask):
        found = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return self.head(found.mean(dim=1))


def tokens(n: int, seed: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(1, 40, (n, 7), generator=generator)
    mask = torch.ones_like(ids)
    mask[::3, 5:] = 0
    return Batch({"input_ids": ids, "attention_mask": mask}, torch.arange(n) % 3)


def pictures(n: int, seed: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(n, 3, 8, 8, generator=generator, dtype=torch.float64)
    return Batch({"pixel_values": values}, torch.arange(n) % 3)


def made(name: str) -> nn.Module:
    t = transformers
    if name == "t5":
        return T5Classifier()
    if name == "bert":
        return t.BertForSequenceClassification(t.BertConfig(vocab_size=40, num_labels=3, **SMALL, **STILL))
    if name == "vit":
        config = t.ViTConfig(image_size=8, patch_size=4, num_labels=3, **SMALL, **STILL)
        return t.ViTForImageClassification(config)
    if name == "gpt2":
        still = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
        sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 16}
        config = t.GPT2Config(vocab_size=40, num_labels=3, pad_token_id=0, **sizes, **still)
        return t.GPT2ForSequenceClassification(config)
    config = t.MixtralConfig(
        vocab_size=40, num_labels=3, pad_token_id=0, num_key_value_heads=2, num_local_experts=3,
        max_position_embeddings=16, attention_dropout=0.0, experts_implementation="eager", **SMALL,
    )  # fmt: skip
    return t.MixtralForSequenceClassification(config)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "draw", "per_layer"),
    [
        ("bert", tokens, True),
        ("vit", pictures, True),
        ("gpt2", tokens, True),
        ("mixtral", tokens, False),  # its experts see the samples that were sent to them
    ],
)
def test_auto_is_exact(name, draw, per_layer):
    torch.manual_seed(0)
    model = made(name).double()
    batches = [numbered(draw(n, k), 2 * k) for k, n in enumerate((13, 6, 1))]
    auto = stepped(model, batches, draw(7, 9), "auto")
    assert not per_layer or auto[0].mode.name == "per-layer"
    same(auto, stepped(model, batches, draw(7, 9), "double-backward"))


@pytest.mark.slow
def test_t5_in_its_own_precision():
    """Its norm takes the variance in float32 whatever the model's type, so nothing is exact beyond that."""
    torch.manual_seed(0)
    model = made("t5")
    batches = [numbered(tokens(n, k), 2 * k) for k, n in enumerate((13, 6))]
    auto, double = (stepped(model, batches, tokens(7, 9), mode) for mode in ("auto", "double-backward"))
    assert auto[0].mode.name == "per-layer"
    for a, b in zip(auto[1], double[1], strict=True):
        assert oracle.error(a.gradient, b.gradient) < 1e-4
    for a, b in zip(auto[2][-1].values(), double[2][-1].values(), strict=True):
        assert (a is None) == (b is None)
        assert a is None or oracle.error(a, b) < 1e-4

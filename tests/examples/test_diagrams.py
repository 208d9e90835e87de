"""Figures 1 and 2: the shapes and counts that are drawn are those of the model's parameters."""

import math
import sys

import pytest
from extras import need
from small_models import small_config

from examples.paper import architecture
from examples.paper.architecture_blocks import columns_of
from examples.paper.architecture_diagram import draw_architecture
from examples.paper.attention_diagram import draw_multi_head_attention
from minitransformer.config import ModelConfig
from minitransformer.models import Transformer, model_class

CONFIGS = {
    "base": {},
    "pre-norm": {"norm": "pre"},
    "nothing shared": {"tie_embeddings": False, "positions": "learned", "attention_bias": True},
    "no layers": {"n_layers": 0},
    "language model": {"kind": "language_model", "positions": "learned", "norm": "pre"},
}
every_config = pytest.mark.parametrize("config", [small_config(**changes) for changes in CONFIGS.values()], ids=CONFIGS)


def parts_of(config: ModelConfig) -> list:
    """All blocks and layers of a model's picture."""
    return [part for column in columns_of(config, shapes_of(config)) for part in column.parts]


def shapes_of(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    return model_class(config).parameter_shapes(config)


@every_config
def test_every_parameter_is_in_one_block_with_its_shape(config):
    found = []
    for part in parts_of(config):
        if not hasattr(part, "blocks"):
            found += part.parameters.items()
            continue
        for number in range(part.count):
            own = [each for block in part.blocks for each in block.parameters.items()]
            found += [(name.replace(".0.", f".{number}.", 1), shape) for name, shape in own]
    assert sorted(found) == sorted(shapes_of(config).items())


@every_config
def test_the_picture_shows_all_shapes_and_the_number_of_parameters(config):
    need("matplotlib")
    shapes = shapes_of(config)
    texts = [text.get_text().replace("\xa0", " ") for text in draw_architecture(config, shapes).axes[0].texts]
    assert f"{config.kind}: {sum(map(math.prod, shapes.values())):,} parameters" in texts
    for name, shape in shapes.items():
        assert any(f"{name.rpartition('.')[2]} {shape}" in text for text in texts), name


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_residual_connections_lead_around_the_sub_layers(norm):
    encoder, decoder = (part.blocks for part in parts_of(small_config(norm=norm)) if hasattr(part, "blocks"))
    for blocks, n_sublayers in ((encoder, 2), (decoder, 3)):
        bypassed = [blocks[i - block.bypassed : i] for i, block in enumerate(blocks) if block.bypassed]
        assert len(bypassed) == n_sublayers
        assert [each[0].title == "Norm" for each in bypassed] == [norm == "pre"] * n_sublayers
    assert [block.title for block in decoder if block.reads_encoder] == ["Multi-Head Attention"]


def test_figure_2_shows_the_shapes_of_an_attention():
    need("matplotlib")
    config = small_config()  # d_k, d_v and d_model / n_heads all differ
    model = Transformer(config)
    attention, h = model.encoder.layers[0].self_attention, config.n_heads
    texts = "\n".join(text.get_text() for text in draw_multi_head_attention(config, shapes_of(config)).axes[0].texts)
    for name in ("w_q", "w_kv", "w_o"):
        assert f"{name} {getattr(attention, name).weight.shape}" in texts
    for shape in (
        (h, "T", config.d_k),
        (h, "S", config.d_k),
        (h, "S", config.d_v),
        (h, "T", config.d_v),
        (h, "T", "S"),
    ):
        assert texts.count(f"(B, {shape[0]}, {shape[1]}, {shape[2]})") >= 2, "both pictures show it"
    assert f"sqrt({config.d_k})" in texts and f"h = {h}" in texts


@pytest.mark.parametrize(("part", "title"), [("model", b">Input Embedding<"), ("attention", b">Multi-Head Attention<")])
def test_a_config_is_drawn_by_a_command(monkeypatch, tmp_path, part, title):
    need("matplotlib")
    config, picture = tmp_path / "a.toml", tmp_path / "a.svg"
    config.write_text("model = {vocab_size = 50, n_layers = 1, d_model = 8, d_ff = 8, n_heads = 2}")
    monkeypatch.setattr(sys, "argv", ["architecture", str(config), "--part", part, "-o", str(picture)])
    assert architecture.main() == 0
    assert title in picture.read_bytes()

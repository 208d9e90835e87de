"""``my_llm``: the glue is Llama, as Hugging Face computes it, and its gradient is that of finite differences."""

import numpy as np
import pytest
from extras import need

from course.assembly import assembled
from solutions import my_llm as glue
from solutions.my_transformer import Var, first_vector, grads_of, views

SIZES = 2, 4, 2
"""Layers, heads, shared heads."""
SHAPES = glue.shapes_of(11, 2, 16, 12, 4, 2)


@pytest.fixture
def vector(rng):
    start = first_vector(SHAPES, rng)
    return start + 0.3 * rng.standard_normal(start.shape)


def halves_first(weight, n_heads):
    """Llama turns the numbers i and i + d_k / 2 of a head together, the glue 2 i and 2 i + 1: columns in its order."""
    heads = weight.reshape(len(weight), n_heads, -1)
    return np.concatenate([heads[..., 0::2], heads[..., 1::2]], axis=-1).reshape(weight.shape)


def llamas_state(vector):
    """The parameters under Hugging Face's names, matrices as (out, in)."""
    p = {name: each.data for name, each in views(vector, SHAPES).items()}
    state = {
        "model.embed_tokens.weight": p["table"] * 4.0,
        "lm_head.weight": p["table"],
        "model.norm.weight": p["gamma"],
    }
    for i in range(2):
        place = f"model.layers.{i}"
        turned = {"q": halves_first(p[f"{i} q"], 4), "k": halves_first(p[f"{i} k"], 2)}
        state |= {f"{place}.self_attn.{w}_proj.weight": turned.get(w, p[f"{i} {w}"]).T for w in "qkvo"}
        for ours, theirs in (("w1", "gate"), ("w3", "up"), ("w2", "down")):
            state[f"{place}.mlp.{theirs}_proj.weight"] = p[f"{i} {ours}"].T
        state[f"{place}.input_layernorm.weight"] = p[f"{i} gamma 0"]
        state[f"{place}.post_attention_layernorm.weight"] = p[f"{i} gamma 1"]
    return state


def test_the_glue_gives_the_logits_of_llama(vector, rng):
    torch, transformers = need("torch"), need("transformers")
    config = transformers.LlamaConfig(
        vocab_size=11,
        hidden_size=16,
        intermediate_size=12,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        hidden_act="relu",
        rms_norm_eps=1e-6,
    )
    theirs = transformers.LlamaForCausalLM(config).double().eval()
    state = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in llamas_state(vector).items()}
    theirs.load_state_dict(state)
    ids = rng.integers(0, 11, 9)
    with torch.no_grad():
        wanted = theirs(torch.from_numpy(ids)[None]).logits[0].numpy()
    # their norms are float32
    np.testing.assert_allclose(glue.forward(views(vector, SHAPES), ids, *SIZES).data, wanted, rtol=1e-5, atol=1e-5)


def test_the_gradient_of_the_loss_is_that_of_finite_differences(vector, rng):
    text, direction, h = rng.integers(3, 11, 6), rng.standard_normal(vector.shape), 1e-6
    ahead, behind = (glue.loss_of(views(vector + s * h * direction, SHAPES), text, *SIZES).data for s in (1, -1))
    p = views(vector, SHAPES)
    grads = grads_of(glue.loss_of(p, text, *SIZES), list(p.values()))
    slope = np.concatenate([np.ravel(grad) for grad in grads]) @ direction
    np.testing.assert_allclose((ahead - behind) / (2 * h), slope, rtol=1e-5)


def test_scores_know_the_distance_alone(rng):
    q, k = Var(rng.standard_normal((5, 8))), Var(rng.standard_normal((5, 8)))
    near, far = (glue.turn(q, 2, at).data @ glue.turn(k, 2, at).data.T for at in (0, 1000))
    np.testing.assert_allclose(near, far, rtol=1e-9, atol=1e-9)


def test_where_nothing_is_yours_the_model_is_of_solutions_and_every_part_is_named(monkeypatch):
    monkeypatch.setenv("MINITRANSFORMER_MINE", "off")
    model, faults = assembled("my_llm")
    assert model.forward is not glue.forward and all(faults.values()) and "my_transformer.attend" in faults

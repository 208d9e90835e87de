"""Marian's .npz and PyTorch's state dicts: the logits of the models that they hold."""

import numpy as np
import pytest
from extras import need
from foreign_models import SENTENCES, checkpoint_with, logits_of, marian_model, shrink_norms, unigram_model

from minitransformer.checkpoints import load_model
from minitransformer.cli.main import main
from minitransformer.config import BOS, ModelConfig
from minitransformer.errors import DataError
from minitransformer.interop.marian import read_npz, read_vocabulary
from minitransformer.interop.pytorch import read_state_dict, write_state_dict
from minitransformer.interop.safetensors import read_safetensors
from minitransformer.models import ImportedConfig, build_model

SIZE = 40
SETTINGS = """bert-mask-symbol: "[MASK]"
dim-emb: 16
dim-vocabs:
  - 39
  - 39
dec-depth: 2
enc-depth: 2
tied-embeddings-all: true
transformer-decoder-autoreg: self-attention
transformer-dim-ffn: 24
transformer-ffn-activation: swish
transformer-ffn-depth: 2
transformer-heads: 4
transformer-postprocess: dan
transformer-postprocess-emb: d
transformer-preprocess: ""
type: transformer
version: v1.9.0
"""


def marian_arrays(theirs) -> dict[str, np.ndarray]:
    """A MarianMT model under the names that Marian gave its tensors, without the row of padding."""
    state = {name: value.numpy() for name, value in theirs.state_dict().items()}
    arrays = {"Wemb": state["model.shared.weight"][:-1], "decoder_ff_logit_out_b": state["final_logits_bias"][:, :-1]}
    blocks = [
        ("encoder", "self", "self_attn"),
        ("decoder", "self", "self_attn"),
        ("decoder", "context", "encoder_attn"),
    ]
    for layer in range(2):
        for side, block, name in blocks:
            at, to = f"model.{side}.layers.{layer}.{name}", f"{side}_l{layer + 1}_{block}"
            for part, word in (("q", "q_proj"), ("k", "k_proj"), ("v", "v_proj"), ("o", "out_proj")):
                arrays[f"{to}_W{part}"] = state[f"{at}.{word}.weight"].T
                arrays[f"{to}_b{part}"] = state[f"{at}.{word}.bias"][None]
            arrays[f"{to}_Wo_ln_scale"] = state[f"{at}_layer_norm.weight"][None]
            arrays[f"{to}_Wo_ln_bias"] = state[f"{at}_layer_norm.bias"][None]
        for side in ("encoder", "decoder"):
            at, to = f"model.{side}.layers.{layer}", f"{side}_l{layer + 1}_ffn"
            for number in (1, 2):
                arrays[f"{to}_W{number}"] = state[f"{at}.fc{number}.weight"].T
                arrays[f"{to}_b{number}"] = state[f"{at}.fc{number}.bias"][None]
            arrays[f"{to}_ffn_ln_scale"] = state[f"{at}.final_layer_norm.weight"][None]
            arrays[f"{to}_ffn_ln_bias"] = state[f"{at}.final_layer_norm.bias"][None]
    return arrays


def save_marian(path, arrays: dict, settings: str = SETTINGS) -> None:
    np.savez(path, **arrays, **{"special:model.yml": np.frombuffer(settings.encode() + b"\0", np.int8)})


@pytest.fixture(scope="module")
def theirs():
    return marian_model(SIZE, activation_function="swish")


def test_a_marian_file_has_the_logits_of_the_model_that_hugging_face_makes_of_it(tmp_path, theirs, rng):
    save_marian(tmp_path / "model.npz", marian_arrays(theirs))
    model, tokenizer = read_npz(tmp_path / "model.npz").build()
    assert tokenizer is None
    src, tgt = rng.integers(2, SIZE - 1, (3, 6)), rng.integers(2, SIZE - 1, (3, 4))
    ours = model(src + 2, np.c_[np.full(3, BOS), tgt + 2]).data
    wanted = logits_of(theirs, src, np.c_[np.full(3, SIZE - 1), tgt])
    # Ids 2 and 3 are their 0 and 1, the others follow; a pad that Marian does not have is never written. Their epsilon
    # of layer norm is 1e-5 and Marian's 1e-6.
    np.testing.assert_allclose(ours[..., 2:], wanted[..., :-1], atol=2e-3)
    assert (ours[..., :2] < -9e3).all()


@pytest.mark.parametrize(
    "change, message",
    [
        ({"encoder_l1_self_Wq": None}, "encoder_l1_self_Wq must be there, got none"),
        ({"Wpos": np.zeros((4, 16), np.float32)}, "without, such as 'Wpos'"),
        ({"decoder_l2_ffn_W1": np.zeros((16, 25), np.float32)}, r"decoder_l2_ffn_W1 must have the shape \(16, 24\)"),
        ({"decoder_ff_logit_out_b": np.zeros((1, 1), np.float32)}, r"out_b must have the shape \(39,\), got \(1,\)"),
        ({"Wemb": np.zeros((0, 16), np.float32)}, r"encoder_Wemb must have the shape \('V', 16\), got \(0, 16\)"),
        ("transformer-preprocess: n", "transformer-preprocess must be '', got 'n'"),
        ("transformer-ffn-activation: tanh", "its settings must hold numbers"),
        ("dec-depth: 1", "enc-depth and dec-depth must be one number"),
        ("transformer-heads: 3", r"model\.npz: model\.d_model must be a multiple of n_heads"),
        ({"encoder_Wemb": np.ones((39, 16), np.float32)}, "must have one tensor for encoder_Wemb, got .* and another"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(tmp_path, theirs, change, message):
    arrays, settings = marian_arrays(theirs), SETTINGS
    if isinstance(change, dict):
        arrays = {name: array for name, array in (arrays | change).items() if array is not None}
    else:
        key = change.partition(":")[0]
        settings = "".join(
            f"{change}\n" if line.startswith(f"{key}:") else f"{line}\n" for line in settings.splitlines()
        )
    save_marian(tmp_path / "model.npz", arrays, settings)
    with pytest.raises(ValueError, match=message):
        read_npz(tmp_path / "model.npz")


def test_the_vocabulary_of_a_marian_model_is_read_whatever_its_quotes(tmp_path):
    pieces = ["</s>", "<unk>", ",", "\u2581the", '"', "'", "\\", ":", "#", "\x85", "? key", "null", "\u2581-"]
    lines = [
        "</s>: 0", "<unk>: 1", '",": 2', "\u2581the: 3", '"\\"": 4', "\"'\": 5", '"\\\\": 6', '":": 7', "'#': 8",
        '"\\x85": 9', '? "? key"\n: 10', "null: 11", "\u2581-: 12",
    ]  # fmt: skip
    (tmp_path / "vocab.yml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert read_vocabulary(tmp_path / "vocab.yml") == pieces
    (tmp_path / "vocab.yml").write_text("a: 0\nb: 2\nc: 1\nd: 4\n", encoding="utf-8")
    with pytest.raises(DataError, match="must number its pieces 0, 1, 2"):
        read_vocabulary(tmp_path / "vocab.yml")


def test_the_command_reads_a_marian_model_with_its_vocabulary(tmp_path, theirs, capsys, refused):
    arrays = marian_arrays(theirs)
    save_marian(tmp_path / "model.npz", arrays)
    for name, lines in (("source.spm", SENTENCES[:3]), ("target.spm", SENTENCES[3:6])):
        (tmp_path / name).write_bytes(unigram_model(lines * 20, 40))
    pieces = ["</s>", "<unk>", *(f"'\u2581p{number}'" for number in range(SIZE - 3))]
    (tmp_path / "opus.vocab.yml").write_text("".join(f"{p}: {i}\n" for i, p in enumerate(pieces)), encoding="utf-8")
    assert main(["import", str(tmp_path / "model.npz"), "-o", str(tmp_path / "out.npz")]) == 0
    assert "2 layers, d_model 16, with its vocabulary" in capsys.readouterr().out
    argv = ["import", str(tmp_path / "model.npz"), "-o", str(tmp_path / "other.npz"), "--tokenizer", "none.txt"]
    refused(main(argv), "--tokenizer must be left out")


@pytest.fixture(params=["post", "pre"])
def translator(request):
    """A translator around nn.Transformer, as tutorials build it, and how it was built."""
    torch = need("torch")
    torch.manual_seed(1)
    options = {"batch_first": True, "norm_first": request.param == "pre", "dropout": 0.0, "activation": "gelu"}
    modules = torch.nn.ModuleDict(
        {
            "src_embedding": torch.nn.Embedding(SIZE, 16),
            "tgt_embedding": torch.nn.Embedding(SIZE, 16),
            "transformer": torch.nn.Transformer(16, 4, 2, 2, 24, **options),
            "projection": torch.nn.Linear(16, SIZE),
        }
    )
    shrink_norms(modules)
    return modules.eval(), request.param


def torch_logits(modules, src: np.ndarray, tgt: np.ndarray) -> np.ndarray:
    torch = need("torch")
    from minitransformer.nn.positions import sinusoids

    def embed(name: str, ids: np.ndarray):
        positions = torch.tensor(sinusoids(0, ids.shape[1], 16), dtype=torch.float32)
        return modules[name](torch.tensor(ids)) * 4.0 + positions

    with torch.no_grad():
        causal = torch.nn.Transformer.generate_square_subsequent_mask(tgt.shape[1])
        hidden = modules["transformer"](embed("src_embedding", src), embed("tgt_embedding", tgt), tgt_mask=causal)
        return modules["projection"](hidden).numpy()


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_a_state_dict_of_pytorch_has_the_logits_of_its_modules(tmp_path, translator, rng, suffix):
    modules, norm = translator
    state = {name: value.numpy() for name, value in modules.state_dict().items()}
    path = tmp_path / f"model{suffix}"
    if suffix == ".npz":
        np.savez(path, **state)
    else:
        need("safetensors.numpy").save_file(state, path)
    options = f"--heads 4 --norm {norm} --activation gelu".split()
    assert main(["import", str(path), "-o", str(tmp_path / "out.npz"), *options]) == 0
    model, _ = load_model(tmp_path / "out.npz")
    src, tgt = rng.integers(4, SIZE, (3, 6)), rng.integers(4, SIZE, (3, 4))
    np.testing.assert_allclose(model(src, tgt).data, torch_logits(modules, src, tgt), atol=2e-5)


@pytest.mark.parametrize("changes", [{"norm": "pre"}, {"attention_bias": True}, {"tie_embeddings": False}])
def test_an_exported_state_dict_loads_and_comes_back_the_same(tmp_path, rng, changes):
    torch = need("torch")
    section = ModelConfig(vocab_size=SIZE, n_layers=2, d_model=16, n_heads=4, d_ff=24, **changes)
    model, path = build_model(section, seed=2), tmp_path / "model.safetensors"
    line = write_state_dict(checkpoint_with(model), path)
    module = torch.nn.Transformer(
        16, 4, 2, 2, 24, batch_first=True, norm_first=section.norm == "pre", layer_norm_eps=1e-6
    )
    assert f"norm_first={section.norm == 'pre'}" in line and ("to None" in line) == (section.norm == "post")
    if section.norm == "post":
        module.encoder.norm = module.decoder.norm = None
    state = {name: torch.tensor(array) for name, array in read_safetensors(path).items()}
    tables = {name: state.pop(name) for name in list(state) if "embedding" in name or "projection" in name}
    module.load_state_dict(state)
    src, tgt = rng.integers(4, SIZE, (2, 6)), rng.integers(4, SIZE, (2, 5))
    names = (
        ["embedding.weight"] * 3
        if section.tie_embeddings
        else [f"{n}.weight" for n in ("src_embedding", "tgt_embedding", "projection")]
    )
    modules = {
        name: torch.nn.Embedding.from_pretrained(tables[key])
        for name, key in zip(("src_embedding", "tgt_embedding"), names, strict=False)
    }
    modules |= {"transformer": module.eval(), "projection": lambda hidden: hidden @ tables[names[2]].T}
    np.testing.assert_allclose(torch_logits(modules, src, tgt), model(src, tgt).data, atol=2e-5)
    back = read_state_dict(path, None, n_heads=4, norm=section.norm)
    again = back.build()[0]
    for name in model.parameters.names:
        np.testing.assert_array_equal(again.parameters[name].data, model.parameters[name].data)


def test_an_exported_state_dict_keeps_the_bias_of_the_logits(tmp_path, rng):
    section = ImportedConfig(
        kind="imported", vocab_size=SIZE, n_layers=1, d_model=16, n_heads=4, d_ff=24, output_bias=True
    )
    model, path = build_model(section, seed=2), tmp_path / "model.safetensors"
    model.output_bias.data[...] = rng.standard_normal(SIZE)
    write_state_dict(checkpoint_with(model), path)
    again, _ = read_state_dict(path, None, n_heads=4).build()
    np.testing.assert_array_equal(again.output_bias.data, model.output_bias.data)


@pytest.mark.parametrize(
    "changes, message",
    [({"kind": "language_model"}, "got language_model and relu"), ({"positions": "learned"}, "sinusoids, got others")],
)
def test_a_model_that_the_module_has_not_is_refused_with_the_reason(tmp_path, changes, message):
    section = ModelConfig(vocab_size=SIZE, n_layers=1, d_model=16, n_heads=4, d_ff=24, **changes)
    with pytest.raises(DataError, match=message):
        write_state_dict(checkpoint_with(build_model(section)), tmp_path / "model.safetensors")


def test_a_state_dict_of_something_else_is_refused(tmp_path):
    np.savez(tmp_path / "other.npz", **{"layer.weight": np.zeros((2, 2))})
    with pytest.raises(DataError, match="must be the state dict of an nn.Transformer"):
        read_state_dict(tmp_path / "other.npz", None)

"""MarianMT folders: the same logits and the same outputs as Hugging Face's own model, both ways."""

import json
from dataclasses import replace

import numpy as np
import pytest
from extras import need
from foreign_models import SENTENCES, checkpoint_with, logits_of, marian_model, save_vocabulary, shrink_norms
from tiny_run import write_config

from minitransformer.checkpoints import load_checkpoint
from minitransformer.cli.main import main
from minitransformer.config import BOS, EOS, UNK, ModelConfig, TranslationConfig
from minitransformer.errors import DataError
from minitransformer.generation import search_lines
from minitransformer.interop.huggingface import read_folder, write_folder
from minitransformer.interop.safetensors import read_safetensors, write_safetensors
from minitransformer.models import build_model
from minitransformer.text import Tokenizer
from minitransformer.training.init_from import initialize

SIZE = 90


@pytest.mark.parametrize("activation", ["relu", "swish", "gelu"])
@pytest.mark.parametrize("tgt_size", [0, 70])
def test_an_imported_model_has_the_logits_of_theirs(tmp_path, rng, activation, tgt_size):
    theirs = marian_model(SIZE, tgt_size=tgt_size, activation_function=activation)
    shrink_norms(theirs)
    theirs.model.decoder.layers[-1].final_layer_norm.weight.data *= 50.0  # so that logits show what the norms did
    theirs.save_pretrained(tmp_path)
    model, tokenizer = read_folder(tmp_path).build()
    assert tokenizer is None
    pad, n_tgt = theirs.config.pad_token_id, tgt_size or SIZE
    src, tgt = rng.integers(2, pad, (3, 7)), rng.integers(2, pad, (3, 5))
    order = [pad, pad, 0, 1, *(number for number in range(SIZE) if number not in (0, 1, pad))]
    src_ids, tgt_ids = (np.vectorize({old: new for new, old in enumerate(order)}.get)(ids) for ids in (src, tgt))
    ours = model(src_ids, np.c_[np.full(3, BOS), tgt_ids]).data
    wanted = logits_of(theirs, src, np.c_[np.full(3, pad), tgt])
    order_tgt = np.array([pad, pad, 0, 1, *(number for number in range(n_tgt) if number not in (0, 1, pad))])
    columns = np.delete(np.arange(len(order_tgt)), BOS)
    np.testing.assert_allclose(ours[..., columns], wanted[..., order_tgt[columns]], atol=2e-5, rtol=1e-5)
    assert (ours[..., BOS] < -9e3).all()


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "theirs"
    marian_model(SIZE, activation_function="swish").save_pretrained(folder)
    save_vocabulary(folder, SIZE)
    return folder


def their_ids(ours: list[int]) -> list[int]:
    return [{EOS: 0, UNK: 1}.get(token, token - 2) for token in ours]


@pytest.mark.parametrize("beam_size", [1, 4])
def test_translations_are_theirs_token_by_token_or_better(folder, beam_size):
    """A beam may end with other hypotheses where the searches stop at other lengths: then ours must be as probable."""
    torch, library = need("torch"), need("transformers")
    theirs, pieces = (
        library.MarianMTModel.from_pretrained(folder).eval(),
        library.MarianTokenizer.from_pretrained(folder),
    )
    model, tokenizer = read_folder(folder).build()
    lines, search = SENTENCES[:6], TranslationConfig(beam_size=beam_size, alpha=0.0, max_extra=4)
    same = 0
    for line, (best,) in zip(lines, search_lines(model, tokenizer, lines, search), strict=True):
        src = pieces([line], return_tensors="pt").input_ids
        assert src[0, :-1].tolist() == their_ids(tokenizer.encode(line))
        limit = len(tokenizer.encode(line)) + 4
        options = {"num_beams": beam_size, "length_penalty": 0.0, "do_sample": False, "max_length": limit + 2}
        with torch.no_grad():
            found = theirs.generate(src, bad_words_ids=[[SIZE - 1]], **options)[0].tolist()
        found, ours = found[1:], [*their_ids(best.ids), 0]
        length = min(len(found), len(best.ids)) if 0 not in found else max(len(found), len(ours))  # cut, or whole
        same += found[:length] == ours[:length]
        if found[:length] != ours[:length] and 0 in found:
            score = [log_probability(theirs, src.numpy(), sequence) for sequence in (ours, found)]
            assert beam_size > 1 and score[0] > score[1] - 1e-4
    assert same >= (6 if beam_size == 1 else 3)


def test_a_code_of_a_language_at_the_start_of_a_line_is_one_token_as_theirs(folder):
    table = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    table |= {">>fra<<": SIZE - 2, ">>deu_Latn<<": SIZE - 3}
    (folder / "vocab.json").write_text(json.dumps(table), encoding="utf-8")
    pieces, tokenizer = need("transformers").MarianTokenizer.from_pretrained(folder), read_folder(folder).build()[1]
    text = SENTENCES[0]
    for line in (f">>fra<< {text}", f">>deu_Latn<<{text}", ">>fra<<", f"{text} >>fra<<", f">> {text}", text):
        assert their_ids(tokenizer.encode(line)) == pieces([line]).input_ids[0][:-1], line
    assert tokenizer.encode(f">>fra<< {text}") == [SIZE, *tokenizer.encode(text)]
    assert tokenizer.longest_symbol == len(">>deu_Latn<<")


def log_probability(theirs, src: np.ndarray, sequence: list[int]) -> float:
    logits = logits_of(theirs, src, np.array([[SIZE - 1, *sequence[:-1]]]))[0].astype(float)
    return sum(row[token] - np.log(np.exp(row).sum()) for row, token in zip(logits, sequence, strict=True))


def test_an_exported_model_is_loaded_by_their_library_and_comes_back_the_same(tmp_path, rng):
    library = need("transformers")
    for number, changes in enumerate([{}, {"attention_bias": True}, {"tie_embeddings": False}]):
        section = ModelConfig(vocab_size=30, n_layers=2, d_model=16, n_heads=2, d_ff=24, **changes)
        model = build_model(section, seed=1)
        out = tmp_path / str(number)
        line = write_folder(checkpoint_with(model), out)
        assert "epsilon is 1e-5 there and 1e-06 here" in line
        theirs = library.MarianMTModel.from_pretrained(out).eval()
        src, tgt = rng.integers(4, 30, (2, 6)), np.c_[np.full(2, BOS), rng.integers(4, 30, (2, 4))]
        np.testing.assert_allclose(logits_of(theirs, src, tgt), model(src, tgt).data, atol=2e-4)


def test_a_model_of_theirs_that_goes_out_again_has_the_same_tensors(folder, tmp_path):
    write_folder(read_folder(folder), tmp_path / "again")
    before, after = (read_safetensors(each / "model.safetensors") for each in (folder, tmp_path / "again"))
    assert before.keys() == after.keys()
    rows = [SIZE - 1, SIZE - 1, 0, 1, *range(2, SIZE - 1)]
    for name, array in before.items():
        array = array[rows] if name == "model.shared.weight" else array
        array = np.r_[array[0, SIZE - 1], -1e4, array[0, rows[2:]]][None] if name == "final_logits_bias" else array
        np.testing.assert_array_equal(array.astype(np.float32), after[name])


def test_the_command_imports_and_the_others_use_the_checkpoint(folder, tmp_path, capsys):
    assert main(["import", str(folder), "-o", str(tmp_path / "model.npz")]) == 0
    first, *section = capsys.readouterr().out.splitlines()
    assert "with its vocabulary" in first and 'activation = "swish"' in section
    checkpoint = load_checkpoint(tmp_path / "model.npz")
    model, tokenizer = checkpoint.build()
    assert tokenizer.decode(tokenizer.target.encode("das alte Haus")) == "das alte Haus"
    text = tmp_path / "text"
    text.write_text("\n".join(SENTENCES[:2]) + "\n", encoding="utf-8")
    need("sacrebleu")
    argv = ["--checkpoint", str(tmp_path / "model.npz"), "--src", str(text), "--ref", str(text), "--beam-size", "2"]
    assert main(["evaluate", *argv]) == 0
    tune(tmp_path, "\n".join(section), text)


def tune(folder, section: str, text) -> None:
    """Two updates with the imported parameters, vocabulary and settings, as the command printed them."""
    model = str(folder / "model.npz")
    data = {key: str(text) for key in ("train_src", "train_tgt")} | {"tokenizer": model}
    training = {"directory": str(folder / "run"), "init_from": model, "updates": 2, "warmup_steps": 4}
    path = write_config(folder / "tune.toml", data=data, training=training)
    path.write_text(f"{section}\np_drop = 0.0\n{path.read_text()}", encoding="utf-8")
    assert main(["train", str(path)]) == 0
    before, after = (load_checkpoint(path) for path in (model, folder / "run" / "checkpoints" / "update_00000002.npz"))
    assert 0 < np.abs(after.parameters - before.parameters).max() < 0.2


@pytest.mark.parametrize(
    "change, message",
    [
        ({"scale_embedding": False}, "scale_embedding must be True, got False"),
        ({"model_type": "bart"}, "model_type must be 'marian'"),
        ({"encoder_layers": 3}, "encoder_layers and decoder_layers must be one number"),
        ({"activation_function": "tanh"}, "must be false and known, got .*tanh"),
        ({"encoder_layers": 1, "decoder_layers": 1}, "without, such as 'model.decoder.layers.1"),
        ({"encoder_ffn_dim": 8, "decoder_ffn_dim": 8}, r"fc1.weight must have the shape \(16, 8\), got \(16, 24\)"),
        ({"pad_token_id": 90}, "special ids must fit"),
        ({"pad_token_id": None}, "special ids must fit"),
        ({"encoder_layers": 1 << 40, "decoder_layers": 1 << 40}, r"config\.json: model\.n_layers must be at most 1000"),
        ({"d_model": 5, "encoder_attention_heads": 1, "decoder_attention_heads": 1}, "must be even, got 5"),
        ({"share_encoder_decoder_embeddings": "yes"}, r"config\.json: model\.tie_embeddings must be true or false"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(folder, change, message):
    facts = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(facts | change))
    with pytest.raises(ValueError, match=message) as caught:
        read_folder(folder)
    assert "\n" not in str(caught.value)


def test_a_tensor_too_many_too_few_or_of_nan_is_refused_by_name(folder):
    tensors, path = read_safetensors(folder / "model.safetensors"), folder / "model.safetensors"
    name = "model.encoder.layers.1.fc2.bias"
    for changed, message in (
        (tensors | {"model.encoder.layernorm_embedding.weight": np.zeros(16, np.float32)}, "layernorm_embedding"),
        ({key: value for key, value in tensors.items() if key != name}, f"{name} must be there"),
        (tensors | {name: tensors[name] * np.nan}, f"{name} must be finite"),
        (
            tensors | {"model.encoder.embed_tokens.weight": tensors["model.shared.weight"] + 1},
            "must have one tensor for model.encoder.embed_tokens.weight, got .* and another",
        ),
        (tensors | {"final_logits_bias": np.zeros((1, 5), np.float32)}, r"must have the shape \(90,\), got \(5,\)"),
        ({key: value for key, value in tensors.items() if key != "final_logits_bias"}, "bias must be there, got none"),
    ):
        write_safetensors(path, changed)
        with pytest.raises(DataError, match=message):
            read_folder(folder)


def test_a_folder_with_a_pickle_alone_is_told_what_to_take(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80")
    with pytest.raises(DataError, match=r"pytorch_model\.bin is a pickle, which runs code: take"):
        read_folder(tmp_path)


def test_an_import_in_8_bits_keeps_its_output_bias_and_goes_on_with_another_vocabulary(folder, tmp_path):
    checkpoint = read_folder(folder)
    checkpoint.save(tmp_path / "small.npz", int8=True)
    small, _ = load_checkpoint(tmp_path / "small.npz").build()
    whole, _ = checkpoint.build()
    bias = whole.parameters["output_bias"].data
    np.testing.assert_allclose(small.parameters["output_bias"].data, bias, rtol=1e-6)
    tokenizer = Tokenizer.train(SENTENCES, 280)
    begun = build_model(replace(whole.config, vocab_size=tokenizer.vocab_size), seed=1)
    assert "tokens are in both vocabularies" in initialize(begun, tokenizer, str(tmp_path / "small.npz"))
    np.testing.assert_allclose(begun.parameters["output_bias"].data[:4], bias[:4], rtol=1e-6)

"""``minitransformer.load``: the model of a file, of a run or of a name, and what it answers."""

import hashlib
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from extras import need
from small_models import small_model

from minitransformer import load, pipeline
from minitransformer.checkpoints import RunFolder, load_model, save_checkpoint
from minitransformer.cli.main import main
from minitransformer.config import Config, TranslationConfig
from minitransformer.errors import CheckpointError, ConfigError
from minitransformer.generation import hypothesis_attention, sample, search_lines, translate_lines
from minitransformer.optim import Adam
from minitransformer.pipeline import find_checkpoint
from minitransformer.text import Tokenizer, pad_batch

TOKENIZER = Tokenizer.train(["ab ba abba b a"] * 3, 99, mode="words")
LINES = ["ab ba", "", "b a ab", "  "]
SEARCH = TranslationConfig(beam_size=3, alpha=0.0, max_extra=4)


def saved(path: Path, rng, kind: str = "transformer", text: str = TOKENIZER.dumps(), update: int = 1) -> Path:
    model = small_model(rng, kind=kind, vocab_size=TOKENIZER.vocab_size, dtype="float32")
    config = Config(model=model.config, translation=SEARCH)
    save_checkpoint(path, model, Adam(model.parameters), update=update, config=config, tokenizer_text=text)
    return path


@pytest.fixture
def checkpoint(tmp_path, rng) -> Path:
    return saved(tmp_path / "model.npz", rng)


def test_it_translates_as_the_checkpoint_says_unless_it_is_told_otherwise(checkpoint):
    model, parts = load(checkpoint), load_model(checkpoint)
    assert model.translate(LINES) == translate_lines(*parts, LINES, SEARCH)
    assert model.translate(iter(LINES), beam_size=1) == translate_lines(*parts, LINES, replace(SEARCH, beam_size=1))
    texts = [[TOKENIZER.decode(each.ids) for each in best] for best in search_lines(*parts, LINES, SEARCH, n_best=2)]
    assert model.translate(LINES, n_best=2) == texts
    assert model.translate(LINES[0]) == model.translate(LINES)[0] and model.translate([]) == []
    assert repr(model).startswith("Transformer, ")


def test_scores_and_attention_come_with_the_subwords_that_they_are_of(checkpoint):
    model, parts = load(checkpoint), load_model(checkpoint)
    found = model.translate(LINES, n_best=2, return_scores=True, return_attention=True)
    for line, results, best in zip(LINES, found, search_lines(*parts, LINES, SEARCH, n_best=2), strict=True):
        assert [each.score for each in results] == [hypothesis.score for hypothesis in best]
        for each, hypothesis in zip(results, best, strict=True):
            ids = TOKENIZER.encode(line) if line.strip() else []
            expected = hypothesis_attention(parts[0], ids, hypothesis.ids)
            assert all(np.array_equal(each.attention[name], weights) for name, weights in expected.items())
            cross = each.attention["decoder.1.cross_attention"]
            assert cross.shape[1:] == (len(each.tgt_subwords), len(each.src_subwords))
            assert each.tgt_subwords == TOKENIZER.subwords([*hypothesis.ids, 2])
    assert found[0][0].text == model.translate(LINES[0])
    assert model.translate(LINES[0], return_scores=True).attention is None


def test_a_language_model_continues_its_prompts(tmp_path, rng):
    path = saved(tmp_path / "model.npz", rng, "language_model")
    model, options = load(path), {"max_tokens": 5, "seed": 4, "temperature": 0.7, "top_k": 5, "top_p": 0.9}
    prompts = ["ab ba", "b", ""]
    ids = [TOKENIZER.encode(each) for each in prompts]
    drawn = sample(load_model(path)[0], pad_batch(ids, [[]] * 3).src, **options)
    texts = model.generate(prompts, **options)
    assert texts == [TOKENIZER.decode(before + after) for before, after in zip(ids, drawn, strict=True)]
    assert texts[0].startswith("ab ba") and model.generate("b", seed=1) == model.generate(["b"], seed=1)[0]
    assert model.generate([]) == []
    with pytest.raises(ConfigError, match="got a language model; call generate"):
        model.translate(prompts)
    with pytest.raises(ConfigError, match="got a language model; call generate"):
        translate_lines(*load_model(path), prompts, SEARCH)


def test_a_model_with_an_encoder_generates_nothing(checkpoint):
    with pytest.raises(ConfigError, match="must be a language model, got a Transformer"):
        load(checkpoint).generate("ab")


def test_evaluate_is_the_bleu_of_the_translations(checkpoint, monkeypatch):
    need("sacrebleu")
    monkeypatch.setattr(pipeline.Pipeline, "translate", lambda self, lines: [line.upper() for line in lines])
    assert load(checkpoint).evaluate(["a b c d"], ["A B C D"]).score == pytest.approx(100)
    assert load(checkpoint).evaluate(["a b c d"], ["A B D C"]).score < 90


def test_a_folder_is_its_newest_checkpoint(tmp_path, type_in, capsys):
    folder = RunFolder(tmp_path / "run")
    for update in (900, 1000, 99):
        saved(folder.path_of(update), np.random.default_rng(update), update=update)
    newest = load_model(folder.path_of(1000))[0].parameters.data
    np.testing.assert_array_equal(load(tmp_path / "run").model.parameters.data, newest)
    with pytest.raises(CheckpointError, match=r"load: yy-xx must be .* or a known name \(en-de\)$"):
        load("yy-xx")
    assert main(["translate", "--checkpoint", "en-de"]) == 2  # which is the name of a model, and no path
    assert "en-de must be a checkpoint or a run; --model takes a known name (en-de)\n" in capsys.readouterr().err
    type_in(b"")
    assert main(["translate", "--checkpoint", str(tmp_path / "run")]) == 0, capsys.readouterr()


def test_a_known_name_is_a_file_of_the_checkout_or_of_the_working_directory(tmp_path, rng, monkeypatch, capsys):
    checkout, here = tmp_path / "checkout", tmp_path / "here"
    for folder in (checkout, here):
        (folder / "models").mkdir(parents=True)
    monkeypatch.setattr(pipeline, "CHECKOUT", checkout)
    monkeypatch.chdir(here)
    weights = saved(tmp_path / "xx-yy.npz", rng).read_bytes()
    monkeypatch.setitem(pipeline.MODELS, "xx-yy", hashlib.sha256(weights).hexdigest())

    def refused():
        assert main(["translate", "--model", "xx-yy"]) == 2
        return capsys.readouterr().err

    where = here / "models" / "xx-yy.npz"
    assert (
        "xx-yy is in a checkout of this project and not in an installed package; copy models/xx-yy.npz from there "
        f"to {where};"
    ) in refused()
    for place in (where, checkout / "models" / "xx-yy.npz"):
        place.write_bytes(weights[:-1] + b"!")
        assert re.search(r"must have the SHA-256 \w{64}; copy the file again from a checkout;", refused())
        place.write_bytes(weights)
        assert load("xx-yy").translate([]) == []


def test_a_run_that_is_called_like_a_known_name_is_reached_by_its_path(tmp_path, rng, monkeypatch, type_in, refused):
    monkeypatch.chdir(tmp_path)
    type_in(b"")
    monkeypatch.setitem(pipeline.MODELS, "xx-yy", "")
    file = saved(RunFolder(tmp_path / "xx-yy").path_of(7), rng)
    assert find_checkpoint(Path("xx-yy")).samefile(file)
    assert main(["translate", "--checkpoint", "xx-yy"]) == 0
    refused(main(["translate", "--model", "xx-yy"]), "xx-yy is in a checkout")


def test_what_cannot_be_loaded_is_refused(tmp_path, rng):
    (tmp_path / "empty").mkdir()
    for path, words in (
        (tmp_path / "none.npz", "none.npz must be a file that training wrote, got no such file"),
        (tmp_path / "empty", "must be a file that training wrote, got no such file"),
        (saved(tmp_path / "ids.npz", rng, text=""), "must contain a tokenizer, .*load_model loads it"),
    ):
        with pytest.raises(CheckpointError, match=words):
            load(path)


def test_a_loaded_model_cannot_be_changed_by_accident(checkpoint):
    with pytest.raises(ValueError, match="read-only"):
        load(checkpoint).model.parameters.data += 1

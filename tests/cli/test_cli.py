"""The command line from two text files to a BLEU score, on a model that trains in a second."""

import json
import signal
import sys

import numpy as np
import pytest
from extras import need
from tiny_run import at_update, entries_read, tiny_text, write_config

from minitransformer import figures
from minitransformer.checkpoints import load_checkpoint, load_model
from minitransformer.cli.main import main
from minitransformer.config import EOS
from minitransformer.generation import hypothesis_attention, search_lines
from minitransformer.text.binary import lengths_of, open_pairs


@pytest.fixture
def checkpoint(run) -> str:
    return str(run / "run" / "checkpoints" / "update_00000060.npz")


def output_of(capsys, *argv: str) -> str:
    capsys.readouterr()
    assert main(list(argv)) == 0
    return capsys.readouterr().out


def test_a_finished_training_leaves_what_it_cost(run):
    cost = json.loads((run / "run" / "cost.json").read_text(encoding="utf-8"))
    assert cost["paper"] == cost["seconds"] * cost["devices"] * cost["sustained"] > cost["formula"] > 0


def test_a_signal_gives_its_exit_code_and_the_same_command_goes_on(run, tmp_path, monkeypatch, capsys):
    settings = [f"training.directory={tmp_path}", "training.updates=4", "training.validate_every=0"]
    argv = ["train", str(run / "run.toml"), *(word for each in settings for word in ("--set", each))]
    with monkeypatch.context() as patched:
        at_update(patched, 2, lambda model: signal.raise_signal(signal.SIGTERM))
        assert main(argv) == 128 + signal.SIGTERM
    assert "2 updates, stopped; the same command resumes from here" in capsys.readouterr().err
    assert not (tmp_path / "cost.json").exists()
    assert main(argv) == 0 and (tmp_path / "cost.json").exists()
    assert "4 updates, done" in capsys.readouterr().err
    (tmp_path / "cost.json").write_text("of the run, not of this call", encoding="utf-8")
    assert main(argv) == 0 and (tmp_path / "cost.json").read_text(encoding="utf-8") == "of the run, not of this call"
    assert main([*argv, "--set", "training.updates=6"]) == 0  # more updates cost more
    assert json.loads((tmp_path / "cost.json").read_text(encoding="utf-8"))["formula"] > 0


def test_the_best_of_several_hypotheses_is_the_one_printed_alone(checkpoint, type_in, capsys):
    type_in(b"one two\nnine\n")
    alone = output_of(capsys, "translate", "--checkpoint", checkpoint, "--beam-size", "3").split("\n")[:-1]
    type_in(b"one two\nnine\n")
    several = output_of(capsys, "translate", "--checkpoint", checkpoint, "--beam-size", "3", "--n-best", "3")
    numbered = [line.split("\t") for line in several.split("\n")[:-1]]
    assert [number for number, _ in numbered] == ["1"] * 3 + ["2"] * 3
    assert [numbered[0][1], numbered[3][1]] == alone


def test_text_is_binarized_with_the_tokenizer_of_a_checkpoint(run, checkpoint, tmp_path):
    text = ["--src", str(run / "val.en"), "--tgt", str(run / "val.de")]
    for name, tokenizer in (("file", str(run / "bpe.txt")), ("checkpoint", checkpoint)):
        assert main(["binarize", *text, "--tokenizer", tokenizer, "-o", str(tmp_path / name)]) == 0
    first, second = (
        {file.name: file.read_bytes() for file in (tmp_path / name).iterdir()} for name in ("file", "checkpoint")
    )
    assert first == second
    assert main(["binarize", *text, "--tokenizer", tokenizer, "-o", str(tmp_path / "short"), "--max-length", "9"]) == 0
    header, *sides = open_pairs(tmp_path / "short")
    assert header.n_long > 0 and max(lengths_of(side).max() for side in sides) == 8  # and the end mark


def test_a_command_reads_the_checkpoint_once_and_without_adams_vectors(checkpoint, type_in, capsys, monkeypatch):
    read = entries_read(monkeypatch)
    type_in(b"nine\n")
    output_of(capsys, "translate", "--checkpoint", checkpoint)
    assert sorted(read) == ["header", "parameters", "tokenizer"]


def test_translations_scored_against_themselves_have_100_bleu(run, checkpoint, tmp_path, capsys):
    need("sacrebleu")
    saved = tmp_path / "hypotheses.de"
    argv = ["evaluate", "--checkpoint", checkpoint, "--src", str(run / "val.en"), "--beam-size", "1"]
    text = output_of(capsys, *argv, "--ref", str(run / "val.de"), "--output", str(saved))
    assert text.startswith("BLEU ") and "nrefs:1" in text and "\nchrF " in text and "tokens/s" in text
    compare = ["--tokenize", "char", "--compare", str(run / "val.de")]
    results = json.loads(output_of(capsys, *argv, "--ref", str(saved), *compare, "--json"))
    assert results["bleu"] == results["compared"]["bleu"]["score"] == pytest.approx(100.0)
    assert results["chrf"] == pytest.approx(100.0) and results["compared"]["chrf"]["other"] < 100
    assert (results["sentences"], results["beam_size"]) == (20, 1)


def test_an_ablation_has_the_scores_that_evaluate_gives_one_by_one(run, tmp_path, capsys):
    need("sacrebleu", "sacremoses")
    directory, mean, saved = str(run / "run"), str(tmp_path / "mean.npz"), tmp_path / "last.de"
    texts = ["--src", str(run / "val.en"), "--ref", str(run / "val.de"), "--language", "de"]
    argv = ["evaluate", "--checkpoint", directory, *texts, "--ablation", "--last", "2", "--beam-size", "3"]
    rows = json.loads(output_of(capsys, *argv, "--json", "--output", str(saved)))["ablation"]
    output_of(capsys, "average", "--last", "2", directory, "-o", mean)
    newest = str(run / "run" / "checkpoints" / "update_00000060.npz")
    one_by_one = [(newest, 1, 0.0), (mean, 1, 0.0), (mean, 3, 0.0), (mean, 3, 0.6)]
    assert [row["name"] for row in rows] == ["last checkpoint", "mean of the last 2", "beam of 3", "length penalty 0.6"]
    for row, (checkpoint, beam_size, alpha) in zip(rows, one_by_one, strict=True):
        options = ["--beam-size", str(beam_size), "--alpha", str(alpha)]
        alone = json.loads(output_of(capsys, "evaluate", "--checkpoint", checkpoint, *texts, *options, "--json"))
        for key in ("bleu", "paper_bleu", "signature", "paper_signature", "beam_size", "alpha"):
            assert row[key] == alone[key]
    assert len(saved.read_text(encoding="utf-8").splitlines()) == 20
    n_words, wanted = (len(path.read_text(encoding="utf-8").split()) for path in (saved, run / "val.de"))
    assert rows[-1]["length"] == n_words / wanted != 1
    table = output_of(capsys, *argv)
    assert all(row["name"] in table for row in rows) and f"{rows[-1]['bleu'] - rows[-2]['bleu']:+.2f}" in table


def test_an_average_in_8_bits_is_a_third_of_the_size_and_translates(checkpoint, tmp_path, type_in, capsys):
    sizes = []
    for name, options in (("mean.npz", []), ("small.npz", ["--int8"])):
        output_of(capsys, "average", checkpoint, *options, "-o", str(tmp_path / name))
        sizes.append((tmp_path / name).stat().st_size)
    assert sizes[1] < sizes[0] / 3
    type_in(b"nine\n")
    assert output_of(capsys, "translate", "--checkpoint", str(tmp_path / "small.npz"))


def test_pictures_of_runs_and_of_attention_are_png_files(run, checkpoint, tmp_path):
    need("matplotlib")
    metrics = str(run / "run" / "metrics.jsonl")
    attention = ["plot", "attention", "--checkpoint", checkpoint, "--src", "one two three"]
    for number, argv in enumerate(
        [
            ["plot", "curves", metrics],
            ["plot", "curves", str(run / "run"), f"again={metrics}"],
            attention,
            [*attention, "--tgt", "eins zwei", "--kind", "decoder", "--layer", "1", "--head", "2"],
            [*attention, "--kind", "encoder"],
        ]
    ):
        picture = tmp_path / f"{number}.png"
        assert main([*argv, "-o", str(picture)]) == 0
        assert picture.read_bytes().startswith(b"\x89PNG")


def test_an_attention_map_shows_the_generated_subwords_and_their_weights(checkpoint, tmp_path, monkeypatch):
    drawn = {}

    def draw(weights, keys, queries, **labels):
        drawn.update(weights=weights, keys=keys, queries=queries, **labels)

    monkeypatch.setattr(figures, "draw_attention", draw)
    monkeypatch.setattr(figures, "picture_bytes", lambda figure, file_format: b"")
    model, tokenizer = load_model(checkpoint)
    text = "one two three"
    source = tokenizer.encode(text)
    search = load_checkpoint(checkpoint).config.translation
    ((generated,),) = search_lines(model, tokenizer, [text], search)
    argv = ["plot", "attention", "--checkpoint", checkpoint, "--src", text, "-o", str(tmp_path / "a.png")]
    for more, target in (([], generated.ids), (["--tgt", "eins zwei"], tokenizer.encode("eins zwei"))):
        assert main([*argv, *more]) == 0
        assert drawn["keys"] == tokenizer.subwords([*source, EOS])
        assert drawn["queries"] == tokenizer.subwords([*target, EOS])
        expected = hypothesis_attention(model, source, target)["decoder.0.cross_attention"]
        np.testing.assert_array_equal(drawn["weights"], expected)
        assert drawn["title"] == "encoder-decoder attention, layer 1 of 1"


def test_a_recurrent_model_is_evaluated_and_the_one_attention_that_it_has_is_drawn(tmp_path, capsys, refused):
    need("sacrebleu", "matplotlib")
    model, training = dict(kind="recurrent", n_layers=1, d_model=16), dict(directory=str(tmp_path / "run"), updates=2)
    write_config(tmp_path / "run.toml", model=model, data=tiny_text(tmp_path), training=training)
    assert main(["train", str(tmp_path / "run.toml")]) == 0
    checkpoint, text, picture = (str(tmp_path / name) for name in ("run", "text", "map.png"))
    assert output_of(capsys, "evaluate", "--checkpoint", checkpoint, "--src", text, "--ref", text).startswith("BLEU ")
    plot = ["plot", "attention", "--checkpoint", checkpoint, "--src", "a f", "-o", picture]
    output_of(capsys, *plot)
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    message = "the model must have attention encoder 1, got cross 1; change --kind or --layer"
    refused(main([*plot, "--kind", "encoder"]), message)


def test_typed_sentences_are_translated_one_by_one(checkpoint, type_in, capsys, monkeypatch):
    type_in(b"nine\n")
    answer = output_of(capsys, "translate", "--checkpoint", checkpoint)
    type_in(b"nine\nnine\n", terminal=True)
    assert output_of(capsys, "translate", "--checkpoint", checkpoint) == 2 * answer  # no prompts in a file
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    type_in(b"nine\n", terminal=True)
    assert output_of(capsys, "translate", "--checkpoint", checkpoint) == f"> {answer}> "


def test_a_training_with_a_profile_writes_a_table(run, tmp_path, capsys):
    settings = [f"training.directory={tmp_path}", "training.updates=3", "training.validate_every=0"]
    argv = ["train", str(run / "run.toml"), "--profile", *(word for each in settings for word in ("--set", each))]
    assert main(argv) == 0
    written = json.loads((tmp_path / "profile.json").read_text())
    assert written["updates"] == 3
    assert {"forward", "backward"} == set(written["milliseconds per update"]["attention"])
    assert "profile.json" in capsys.readouterr().err
    assert main(argv) == 0  # all updates are done: there is nothing to write

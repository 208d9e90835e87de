"""A parser by the commands of examples/parsing/README.md: from a treebank to the F1 of a trained model."""

import json

import pytest
from tiny_run import write_config

from examples.parsing.__main__ import main as parsing
from minitransformer.cli.main import main

TREEBANK = """
( (S (NP-SBJ (DT the) (NN cat)) (VP (VBZ sleeps))) )
( (S (NP-SBJ (DT a) (NN cat)) (VP (VBZ sees) (NP (DT the) (NN dog)))) )
( (S (NP-SBJ (DT the) (NN dog)) (VP (VBZ runs))) )
( (S (NP-SBJ (DT a) (NN dog)) (VP (VBZ sees) (NP (DT a) (NN cat)) (PP-LOC (IN in) (NP (DT the) (NN house))))) )
"""
RECIPE = {
    "data": dict(train_src="words", train_tgt="linear", tokenizer="bpe"),
    "training": dict(directory="run", updates=150, warmup_steps=50, save_every=50, validate_every=0),
    "translation": dict(beam_size=21, alpha=0.3, max_extra=300),
}


@pytest.mark.parametrize("kind", [dict(d_ff=64, n_heads=2), dict(kind="recurrent", attention="additive")])
def test_a_tiny_parser_learns_the_trees_it_has_seen(kind, tmp_path, monkeypatch, type_in, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "treebank").write_text(TREEBANK, encoding="utf-8")
    write_config(tmp_path / "parser.toml", model=dict(n_layers=1, d_model=32, p_drop=0.0) | kind, **RECIPE)

    def run(command: str) -> str:
        name, *arguments = command.split()
        assert (parsing(arguments) if name == "parsing" else main(command.split())) == 0
        return capsys.readouterr().out

    run("parsing linearize --with-tags treebank -o words linear")
    run("bpe train words linear -o bpe --mode words --vocab-size 100")
    run("train parser.toml")
    run("average --last 2 run -o average.npz")
    type_in((tmp_path / "words").read_bytes())
    (tmp_path / "output").write_text(run("translate --checkpoint average.npz"), encoding="utf-8")
    run("parsing restore --words words --linear output -o parsed")
    result = json.loads(run("parsing score parsed treebank --json"))
    assert result["sentences"] == 4 and result["skipped"] == 0 and result["f1"] > 90, result

"""``examples.parsing``: from a treebank to the files that a parser is trained on, back to trees, and their F1."""

import json
from pathlib import Path

import pytest

from examples.parsing.__main__ import main
from minitransformer.config import Config
from minitransformer.models import Transformer
from minitransformer.optim import learning_rate

TREEBANK = """( (S (NP-SBJ (DT the) (NN cat))
     (VP (VBZ sleeps)) (. .)) )
( (S (NP-SBJ (-NONE- *))) )
(TOP (NP (NN rain) (-LRB- -LRB-) (NN snow) (-RRB- -RRB-)))
"""
WORDS = "the cat sleeps .\nrain -LRB- snow -RRB-\n"
LINEAR = "(S (NP XX XX )NP (VP XX )VP XX )S\n(NP XX XX XX XX )NP\n"


@pytest.fixture
def files(tmp_path) -> dict[str, Path]:
    paths = {name: tmp_path / name for name in ("treebank", "words", "linear", "trees")}
    paths["treebank"].write_text(TREEBANK, encoding="utf-8")
    paths["words"].write_text(WORDS, encoding="utf-8")
    paths["linear"].write_text(LINEAR, encoding="utf-8")
    return paths


def run(*arguments: object) -> int:
    return main([*map(str, arguments)])


def test_a_treebank_becomes_sentences_and_linear_forms(files, tmp_path, capsys):
    assert run("linearize", files["treebank"], "-o", tmp_path / "src", tmp_path / "tgt") == 0
    assert [(tmp_path / name).read_text(encoding="utf-8") for name in ("src", "tgt")] == [WORDS, LINEAR]
    assert capsys.readouterr().out == "2 trees, 1 left out that hold nothing but traces\n"


def test_perfect_output_scores_100(files, capsys):
    assert run("restore", "--words", files["words"], "--linear", files["linear"], "-o", files["trees"]) == 0
    assert capsys.readouterr().out == "2 trees, 0 repaired\n"
    files["treebank"].write_text(TREEBANK.replace("( (S (NP-SBJ (-NONE- *))) )\n", ""), encoding="utf-8")
    assert run("score", files["trees"], files["treebank"], "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["f1"], result["exact_match"], result["sentences"], result["skipped"]) == (100, 100, 2, 0)


def test_a_treebank_scored_against_itself_has_100_and_no_tree_of_traces_alone(files, capsys):
    assert run("score", files["treebank"], files["treebank"], "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["f1"], result["sentences"], result["skipped"]) == (100, 2, 0)


def test_ill_formed_output_is_repaired_and_counted(files, capsys):
    files["linear"].write_text("(S (NP XX XX )NP (VP XX\n\n", encoding="utf-8")
    assert run("restore", "--words", files["words"], "--linear", files["linear"], "-o", files["trees"]) == 0
    assert capsys.readouterr().out == "2 trees, 2 repaired\n"
    assert files["trees"].read_text(encoding="utf-8") == (
        "(S (NP (XX the) (XX cat)) (VP (XX sleeps)) (XX .))\n(TOP (XX rain) (XX -LRB-) (XX snow) (XX -RRB-))\n"
    )


def test_sentences_with_other_words_are_skipped_and_reported(files, capsys):
    files["trees"].write_text("(S (NN a))\n(S (NN b))\n", encoding="utf-8")
    files["treebank"].write_text("(S (NN a))\n(S (NN c))\n", encoding="utf-8")
    assert run("score", files["trees"], files["treebank"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("F1 100.00  precision 100.00  recall 100.00\n") and "2 sentences" in out
    assert err == "skipped, because their words are not those of the reference: 1\n"


@pytest.mark.parametrize(
    ("name", "text", "arguments", "message"),
    [
        ("treebank", "(S (NN a))\n(S (NN", "linearize {treebank} -o {trees} {trees}2", 'treebank:2:1: every "("'),
        ("treebank", "( (S (-NONE- *)) )", "linearize {treebank} -o {trees} {trees}2", "at least one tree with words"),
        ("treebank", TREEBANK, "linearize {treebank} -o {trees} {trees}", "--output must name two files"),
        (
            "treebank",
            TREEBANK,
            "linearize {treebank} -o {trees} {folder}/../{folder.name}/trees",
            "must name two files",
        ),
        ("treebank", TREEBANK, "linearize {treebank} -o {treebank} {trees}", "must not be one of the inputs"),
        (
            "words",
            "a\n" + "a " * 2001,
            "restore --words {words} --linear {linear} -o {trees}",
            "words:2: a sentence must",
        ),
        ("words", "a\n\n", "restore --words {words} --linear {linear} -o {trees}", "words:2: a sentence must have"),
        ("words", "a\n", "restore --words {words} --linear {linear} -o {trees}", "got 1 and 2"),
        ("trees", "(S (NN a))", "score {trees} {treebank}", "got 1 trees and 2 references"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(files, refused, name, text, arguments, message):
    files[name].write_text(text, encoding="utf-8")
    existed = files["trees"].exists()
    words = (part.format(**files, folder=files["trees"].parent) for part in arguments.split(" "))
    assert refused(run(*words), message) == "" and files["trees"].exists() == existed


RECIPES = Path(__file__).parents[2] / "examples" / "parsing"


@pytest.mark.parametrize("name", ["wsj", "semi-supervised"])
def test_the_recipes_have_the_shape_and_the_search_of_the_paper(name):
    """Section 6.3; all else is as in the base model."""
    recipe = Config.load(RECIPES / f"{name}.toml")
    model, search = recipe.model, recipe.translation
    assert (model.n_layers, model.d_model, model.d_ff, model.n_heads) == (4, 1024, 2048, 8)
    assert (search.beam_size, search.alpha, search.max_extra) == (21, 0.3, 300)


@pytest.mark.parametrize(("name", "warmup_steps"), [("wsj", 16_000), ("semi-supervised", 4000)])
def test_the_recipes_have_half_the_rate_and_matrices_apart_as_the_authors_code(name, warmup_steps):
    """tensor2tensor's transformer_parsing_base and _big: learning_rate is 0.05 where transformer_base has 0.1."""
    recipe = Config.load(RECIPES / f"{name}.toml", ["model.vocab_size=16000"])
    training = recipe.training
    assert training.warmup_steps == warmup_steps
    options = recipe.model.d_model, warmup_steps, training.lr_scale
    assert learning_rate(warmup_steps, *options) == pytest.approx(0.5 * (1024 * warmup_steps) ** -0.5)
    shapes = list(Transformer.parameter_shapes(recipe.model).values())
    assert shapes.count((16_000, 1024)) == 3  # source, target, output


def test_the_recurrent_baseline_has_the_data_updates_and_search_of_the_transformer():
    transformer, recurrent = (Config.load(RECIPES / f"{name}.toml") for name in ("craft", "craft-recurrent"))
    assert (recurrent.model.kind, recurrent.model.attention) == ("recurrent", "additive")
    assert (recurrent.data, recurrent.translation) == (transformer.data, transformer.translation)
    search, updates = transformer.translation, transformer.training.updates
    assert (search.beam_size, search.alpha, search.max_extra) == (21, 0.3, 300)
    assert recurrent.training.updates == updates

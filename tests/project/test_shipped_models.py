"""models/: the files are the ones that the package knows, and translate as well as their card says."""

import re
from pathlib import Path

import pytest
from extras import need

import minitransformer
from minitransformer.evaluation import corpus_bleu, corpus_chrf
from minitransformer.pipeline import MODELS, find_checkpoint
from minitransformer.text import read_parallel

FOLDER = Path(__file__).parents[2] / "models"
CARD = (FOLDER / "README.md").read_text(encoding="utf-8")


def test_the_names_are_those_of_the_files_and_the_files_are_whole_and_small():
    assert sorted(MODELS) == sorted(path.stem for path in FOLDER.glob("*.npz"))
    for name in MODELS:
        assert find_checkpoint(name).parent == FOLDER
        assert f"## {name}" in CARD and find_checkpoint(name).stat().st_size <= 8_000_000


def test_the_example_of_the_card_is_what_the_model_answers():
    said = re.search(r'"([^"]+)" \| minitransformer translate --model en-de', CARD)[1]
    answer = minitransformer.load("en-de").translate(said, return_attention=True)
    assert answer.text in CARD
    assert answer.attention["decoder.2.cross_attention"].sum(axis=-1) == pytest.approx(1)


@pytest.mark.slow
@pytest.mark.parametrize(("file", "test"), [("tatoeba_en_de", "test"), ("multi30k", "test_2016_flickr")])
def test_the_scores_are_those_of_the_card(data_folder, file, test):
    need("sacrebleu")
    bleu, chrf = map(
        float, re.search(rf"^\| {file}\b[^|]*\| [\d,]+ \| ([\d.]+) \| ([\d.]+) \|", CARD, re.MULTILINE).groups()
    )
    sources, references = read_parallel(*(str(data_folder / file / f"{test}.{side}") for side in ("en", "de")))
    found = minitransformer.load("en-de").translate(sources)
    assert corpus_bleu(found, references).score == pytest.approx(bleu, abs=0.1)
    assert corpus_chrf(found, references).score == pytest.approx(chrf, abs=0.1)
    assert file != "tatoeba_en_de" or bleu >= 36

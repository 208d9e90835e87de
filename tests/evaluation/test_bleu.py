"""BLEU: its definition, a published number, and refusals."""

import json
import math
import re
import sys
from collections import Counter
from importlib.metadata import version

import pytest
from extras import need
from odd_text import BY_BYTES

from minitransformer import generation
from minitransformer.cli import evaluate as evaluate_command
from minitransformer.cli.main import main
from minitransformer.config import TranslationConfig
from minitransformer.errors import DataError, MissingPackageError, install_hint
from minitransformer.evaluation import corpus_bleu, corpus_chrf, paired_bootstrap, paper_bleu, require_sacrebleu
from minitransformer.evaluation.bleu import moses_tokens
from minitransformer.text import Tokenizer, read_lines
from minitransformer.text.punctuation import normalize_punctuation

need("sacrebleu")

PUBLISHED = 22.5855084573
"""BLEU of deen_output against deen_ref_bpe, words between spaces: tensorflow/nmt, utils/evaluation_utils_test.py."""


def ngrams(words: list[str], n: int) -> Counter:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def slow_bleu(hypotheses: list[str], references: list[str]) -> float:
    """min(1, e^(1 - r/c)) * geometric mean of the clipped precisions of 1- to 4-grams      [Papineni et al. 2002]"""
    pairs = [(h.split(" "), r.split(" ")) for h, r in zip(hypotheses, references, strict=True)]
    log_precisions = []
    for n in range(1, 5):
        right = sum((ngrams(h, n) & ngrams(r, n)).total() for h, r in pairs)
        log_precisions.append(math.log(right / sum(max(len(h) - n + 1, 0) for h, _ in pairs)))
    ours, theirs = sum(len(h) for h, _ in pairs), sum(len(r) for _, r in pairs)
    return 100 * math.exp(sum(log_precisions) / 4 + min(0.0, 1 - theirs / ours))


@pytest.fixture(scope="module")
def reference_pair(data_folder) -> tuple[list[str], list[str]]:
    folder = data_folder / "bleu_reference"
    references = [line.replace("@@ ", "").strip() for line in read_lines(folder / "deen_ref_bpe")]
    return [line.strip() for line in read_lines(folder / "deen_output")], references


def test_the_definition_written_out_gives_the_published_number(reference_pair):
    assert slow_bleu(*reference_pair) == pytest.approx(PUBLISHED, abs=1e-9)


def test_bleu_equals_its_definition_on_words_that_are_not_split(reference_pair):
    """Of text with nothing but letters and single spaces, 13a leaves the words as they are."""
    plain = [[" ".join(re.findall("[A-Za-z]+", line)) or "none" for line in lines] for lines in reference_pair]
    assert corpus_bleu(*plain).score == pytest.approx(slow_bleu(*plain), abs=1e-9)


def test_the_brevity_penalty_punishes_an_output_that_is_too_short():
    """Half of the reference, word for word: every precision is 1, so BLEU is e^(1 - 2)."""
    assert corpus_bleu(["a b c d e"], ["a b c d e f g h i j"]).score == pytest.approx(100 * math.exp(-1))


def test_the_signature_names_version_and_tokenizer():
    signature = corpus_bleu(["a b c d"], ["a b c d"]).signature
    assert {f"version:{version('sacrebleu')}", "tok:13a", "case:mixed", "nrefs:1"} <= set(signature.split("|"))


@pytest.mark.parametrize(("hypotheses", "references"), [(["a"], ["a", "b"]), (["a", "b"], ["a"]), ([], [])])
def test_line_counts_must_match(hypotheses, references):
    with pytest.raises(DataError, match=f"got {len(hypotheses)} hypotheses and {len(references)} references"):
        corpus_bleu(hypotheses, references)


@pytest.mark.parametrize(
    ("module", "score"),
    [
        ("sacrebleu.metrics", lambda: corpus_bleu(["a"], ["a"])),
        ("sacrebleu.metrics", require_sacrebleu),
        ("sacremoses", lambda: paper_bleu(["a"], ["a"], "nl")),
    ],
)
def test_without_its_package_the_message_names_the_extra(module, score, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    words = f"bleu: {module.split('.')[0]} must be installed; {install_hint('eval')}"
    with pytest.raises(MissingPackageError, match=re.escape(words)):
        score()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("Ein Nord-Süd-Gefälle, d.h. 3-mal.", "Ein Nord @-@ Süd @-@ Gefälle , d.h. 3 @-@ mal ."),
        ("a-b-c-d - e -f", "a @-@ b-c @-@ d - e -f"),
        ("Kein Bindestrich!", "Kein Bindestrich !"),
    ],
)
def test_german_compounds_are_split_as_the_script_splits_them(moses, line, words):
    """Between single letters only every other hyphen is found: a match takes the letter that the next one needs."""
    assert moses_tokens(line, "de") == words.replace("@-@", "##AT##-##AT##")
    assert "##AT##" not in moses_tokens(line, "fr")


def test_the_papers_bleu_is_bleu_of_moses_tokens(moses):
    references = ["Der Nord-Süd-Express fährt heute nicht, sagt er.", "Ein Hund läuft über das grüne, nasse Gras."]
    hypotheses = ["Der Nord-Ost-Express fährt heute nicht, sagt er.", "Ein Hund läuft über das nasse Gras."]
    cut = [[moses_tokens(line, "de") for line in lines] for lines in (hypotheses, references)]
    found = paper_bleu(hypotheses, references, "de")
    assert found.score == pytest.approx(slow_bleu(*cut), abs=1e-9)
    assert "tok:moses.de.compounds" in found.signature.split("|")
    assert found.score != pytest.approx(corpus_bleu(hypotheses, references).score, abs=0.1)
    assert "tok:moses.fr" in paper_bleu(hypotheses, references, "fr").signature.split("|")


def test_the_papers_bleu_tells_quotes_apart_until_punctuation_is_normalized(moses):
    hypotheses, references = ['Er sagt: "Ja, morgen."'], ["Er sagt: „Ja, morgen.“"]
    assert paper_bleu(hypotheses, references, "de").score < 60
    sides = [[normalize_punctuation(line, "de") for line in lines] for lines in (hypotheses, references)]
    assert paper_bleu(*sides, "de").score == pytest.approx(100)


# The command


@pytest.fixture
def evaluate(tmp_path, monkeypatch, capsys):
    """A function of options and a reference: the exit code and what is printed for a translation with ASCII quotes."""
    monkeypatch.setattr(evaluate_command, "open_model", lambda arguments: (None, BY_BYTES, TranslationConfig()))
    monkeypatch.setattr(generation, "translate_lines", lambda *_, **__: ['Er sagte "Ja, ich bin da", und ging - fort.'])
    (tmp_path / "src").write_text("He said yes.\n")

    def run(reference: str, *options: str) -> tuple[int, str, str]:
        (tmp_path / "ref").write_text(f"{reference}\n", encoding="utf-8")
        texts = ["--src", str(tmp_path / "src"), "--ref", str(tmp_path / "ref")]
        return main(["evaluate", "--checkpoint", "none.npz", *texts, *options]), *capsys.readouterr()

    return run


def test_bleu_is_also_printed_with_the_punctuation_of_both_sides_normalized(evaluate, moses):
    options = ["--language", "de", "--normalize-punctuation"]
    reference = "Er sagte „Ja, ich bin da“, und ging – fort."
    scores = json.loads(evaluate(reference, *options, "--json")[1])
    assert scores["normalized_bleu"] == scores["normalized_paper_bleu"] == pytest.approx(100)
    assert scores["bleu"] < 60 and scores["paper_bleu"] < 60
    without = json.loads(evaluate(reference, "--language", "de", "--json")[1])
    assert set(scores) - set(without) == {name for name in scores if name.startswith("normalized_")}
    assert (without["bleu"], without["paper_bleu"]) == (scores["bleu"], scores["paper_bleu"])
    lines = evaluate(reference, *options)[1].splitlines()
    assert [line.split()[:2] for line in lines[:4]] == [
        ["BLEU", f"{scores[name]:.2f}"] for name in ("bleu", "normalized_bleu", "paper_bleu", "normalized_paper_bleu")
    ]
    assert [line.endswith("punctuation of both sides normalized") for line in lines] == [False, True] * 2 + [False] * 3


def test_tokens_are_those_of_the_targets_vocabulary(evaluate, monkeypatch):
    words = Tokenizer("words", ["a", "a</w>"], [])
    monkeypatch.setattr(Tokenizer, "target", words)  # as of an imported model with a vocabulary for each side
    scores = json.loads(evaluate("Ja.", "--json")[1])
    assert scores["tokens"] == len(words.encode('Er sagte "Ja, ich bin da", und ging - fort.')) == 34


def test_punctuation_is_normalized_by_the_rules_of_a_language_that_must_be_given(evaluate):
    code, _, error = evaluate("Ja.", "--normalize-punctuation")
    assert code == 2 and error.startswith(
        "minitransformer evaluate: --normalize-punctuation must be used with --language"
    )


def test_chrf_is_the_f_score_of_character_ngrams():
    """Popovic 2015: spaces do not count, recall counts beta^2 = 4 times, the mean over n of precision and recall."""
    hypothesis, reference = "the cat", "the bat sat"
    h, r = hypothesis.replace(" ", ""), reference.replace(" ", "")
    precisions, recalls = [], []
    for n in range(1, 7):
        ours, theirs = (Counter(side[i : i + n] for i in range(len(side) - n + 1)) for side in (h, r))
        precisions.append((ours & theirs).total() / ours.total())
        recalls.append((ours & theirs).total() / theirs.total())
    p, q = sum(precisions) / 6, sum(recalls) / 6
    assert corpus_chrf([hypothesis], [reference]).score == pytest.approx(100 * 5 * p * q / (4 * p + q), abs=1e-6)


def test_characters_are_the_words_of_a_text_without_spaces(monkeypatch):
    lines, references = ["톰은행복하다"], ["톰은불행하다"]
    spaced = [[" ".join(line) for line in side] for side in (lines, references)]
    assert corpus_bleu(lines, references, "char").score == pytest.approx(corpus_bleu(*spaced, "none").score)
    monkeypatch.setitem(sys.modules, "mecab_ko", None)
    with pytest.raises(MissingPackageError, match=r'tokenizer ko-mecab must be installed; run pip install "sacrebleu'):
        corpus_bleu(lines, references, "ko-mecab")


def test_the_bootstrap_tells_a_better_system_from_an_equal_one(rng):
    references = [" ".join(rng.choice(list("abcdefgh"), 8)) for _ in range(60)]
    worse = [line[:-2] + "x" if number % 2 else line for number, line in enumerate(references)]
    swapped = [line[:-2] + "x" if number % 2 == 0 else line for number, line in enumerate(references)]
    better, equal = paired_bootstrap(references, worse, references), paired_bootstrap(swapped, worse, references)
    assert better["bleu"]["score"] == pytest.approx(100) and better["bleu"]["other"] < 95
    assert better["bleu"]["p"] < 0.01 and better["chrf"]["p"] < 0.01
    assert equal["bleu"]["p"] > 0.1
    assert {kind["p"] for kind in paired_bootstrap(worse, worse, references).values()} == {1.0}
    with pytest.raises(DataError, match="one reference for each hypothesis"):
        paired_bootstrap(references, worse[1:], references)

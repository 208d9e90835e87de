"""The command translate on input of any length and kind: as many lines out as in, in order, as they are done."""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from rank_jobs import environment
from searches import sharp_model
from systems import needs

from minitransformer.checkpoints import load_model, save_checkpoint
from minitransformer.cli.main import main
from minitransformer.config import Config, ModelConfig, TranslationConfig
from minitransformer.errors import ShapeError
from minitransformer.generation import search_blocks, search_lines, translate, translate_lines
from minitransformer.models import Transformer
from minitransformer.optim import Adam
from minitransformer.text import Tokenizer

LINES = ["the cat sat", "a dog", "", "the dog sat on the cat", "   ", "a cat", "dogs sat on cats on the mat"]
SEARCH = TranslationConfig(beam_size=2, max_extra=3, batch_tokens=40)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    """A small model with random weights and its tokenizer, which translates anything into something."""
    tokenizer = Tokenizer.train(LINES * 3, 300)
    config = ModelConfig(vocab_size=tokenizer.vocab_size, n_layers=1, d_model=16, d_ff=16, n_heads=2)
    model = Transformer(config, seed=1)
    model.parameters.data *= 3.0  # different sentences get different translations
    path = tmp_path_factory.mktemp("translate") / "model.npz"
    settings = Config(model=config, translation=SEARCH)
    save_checkpoint(path, model, Adam(model.parameters), update=1, config=settings, tokenizer_text=tokenizer.dumps())
    return path


@pytest.fixture
def translated(checkpoint, type_in, capsys):
    """translated(standard input, options): exit code, lines of standard output, and standard error."""

    def run(text: bytes, *options: str) -> tuple[int, list[str], str]:
        type_in(text)
        code = main(["translate", "--checkpoint", str(checkpoint), *options])
        output, error = capsys.readouterr()
        assert output == "" or output.endswith("\n")
        return code, output.split("\n")[:-1], error

    return run


def expected(checkpoint: Path, lines: list[str]) -> list[str]:
    model, tokenizer = load_model(checkpoint)
    return translate_lines(model, tokenizer, lines, SEARCH)


def ids_of(hypotheses) -> list[list[list[int]]]:
    return [[each.ids for each in best] for best in hypotheses]


@pytest.mark.parametrize("n_best", [1, 2])
def test_blocks_of_any_size_hold_the_translations_of_all_lines_in_order(checkpoint, n_best, rng, monkeypatch):
    model, tokenizer = load_model(checkpoint)
    lines = rng.choice(LINES, 60).tolist()
    whole = search_lines(model, tokenizer, lines, SEARCH, n_best)
    for batches in (1, 3, 1000):
        monkeypatch.setattr(translate, "FIRST_BATCHES", batches)
        monkeypatch.setattr(translate, "BLOCK_BATCHES", 2 * batches)
        blocks = list(search_blocks(model, tokenizer, iter(lines), SEARCH, n_best))
        assert ids_of(itertools.chain.from_iterable(blocks)) == ids_of(whole)
        assert len(blocks) > 5 or batches > 1


def test_blocks_read_no_more_of_an_endless_input_than_they_need(checkpoint):
    model, tokenizer = load_model(checkpoint)
    for line in ("a cat", ""):
        blocks = search_blocks(model, tokenizer, itertools.repeat(line), SEARCH)
        assert len({tuple(best[0].ids) for best in next(blocks) + next(blocks)}) == 1


HANGUP = getattr(signal, "SIGHUP", 1)


@needs("signals between processes")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -15), (HANGUP, -1)], ids=str)
def test_an_interrupted_translation_leaves_whole_lines_in_order(checkpoint, number, code):
    """The input never ends, so what is read here was written before the end of the input."""
    answers = expected(checkpoint, LINES)
    command = [sys.executable, "-m", "minitransformer", "translate", "--checkpoint", str(checkpoint)]
    source, sink = os.pipe()
    pipes = {"stdin": source, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, env=environment()) as process:
        os.close(source)

        def feed():
            with suppress(BrokenPipeError):
                while True:
                    os.write(sink, "".join(f"{line}\n" for line in LINES).encode())

        feeder = threading.Thread(target=feed, daemon=True)
        feeder.start()
        output = b"".join(process.stdout.readline() for _ in range(200))
        process.send_signal(number)
        output += process.stdout.read()
        error = process.stderr.read()
    feeder.join(60)
    os.close(sink)
    assert process.returncode in (code, 128 + number)  # the latter if the signal came while a block was printed
    assert error in (b"", b"minitransformer translate: interrupted\n")
    lines = output.decode().split("\n")
    assert lines.pop() == "" and len(lines) >= 200
    assert lines == [answer for answer, _ in zip(itertools.cycle(answers), lines, strict=False)]


def test_json_has_a_line_for_each_sentence_with_texts_and_scores(checkpoint, translated, monkeypatch):
    monkeypatch.setattr(translate, "FIRST_BATCHES", 1)  # several blocks, through which the numbers go on
    monkeypatch.setattr(translate, "BLOCK_BATCHES", 2)
    sentences = LINES * 6
    code, lines, _ = translated("\n".join(sentences).encode(), "--n-best", "2", "--format", "json")
    objects = [json.loads(line) for line in lines]
    assert code == 0 and [each["number"] for each in objects] == list(range(1, len(sentences) + 1))
    assert [each["translations"][0]["text"] for each in objects] == expected(checkpoint, sentences)
    model, tokenizer = load_model(checkpoint)
    found = search_lines(model, tokenizer, sentences, SEARCH, 2)
    scores = [each["score"] for row in objects for each in row["translations"]]
    assert scores == pytest.approx([each.score for best in found for each in best], rel=1e-5)


def test_a_line_that_is_too_long_is_named_and_all_others_are_translated(checkpoint, translated, rng):
    lines = rng.choice(LINES, 40).tolist()
    answers = expected(checkpoint, lines)
    places = sorted(rng.choice(40, 2, replace=False).tolist())
    for place in places:
        lines[place], answers[place] = "dog " * 16_000, ""
    code, output, error = translated("".join(f"{line}\n" for line in lines).encode())
    assert (code, output) == (2, answers)
    messages = error.split("\n")[:-1]
    assert len(messages) == 2
    for place, message in zip(places, messages, strict=True):
        assert message.startswith(
            f"minitransformer translate: line {place + 1} must have at most 1024 tokens (translation.max_input_length)"
        )
        assert message.endswith("; shorten or split it; its translation is an empty line")


def test_a_line_that_is_not_utf8_is_named_and_all_others_are_translated(checkpoint, translated):
    code, output, error = translated(b"a cat\nk\xf6nnen\na dog\n")
    assert (code, output) == (2, expected(checkpoint, ["a cat", "", "a dog"]))
    assert "standard input:2: must be UTF-8, got byte 0xf6; its translation is an empty line\n" in error


def test_a_line_longer_than_memory_should_hold_is_named_and_skipped(checkpoint, translated, monkeypatch):
    monkeypatch.setattr("minitransformer.cli.translate.MAX_LINE", 100)
    code, output, error = translated(b"a cat\n" + b"dog " * 1000 + b"\na dog\n" + b"x" * 100)
    assert (code, output) == (2, expected(checkpoint, ["a cat", "", "a dog", ""]))
    assert "standard input:2: must have less than 100 bytes" in error and "standard input:4: must have" in error


def test_the_longest_line_that_is_translated_can_be_chosen(translated):
    line = b" ".join([b"dog"] * 500) + b"\n"
    options = ["--max-extra", "0", "--beam-size", "1"]
    code, (answer,), error = translated(line, *options)
    assert (code, error) == (0, "") and answer
    assert translated(line, *options, "--max-input-length", "499")[0] == 2
    assert translated(line, *options, "--max-input-length", "500") == (0, [answer], "")


@pytest.mark.parametrize(
    ("max_positions", "max_input_length", "longest"), [(10, 30, 9), (10, 10, 9), (11, 10, 10), (40, 10, 10)]
)
def test_the_longest_line_fits_both_the_positions_and_the_limit(max_positions, max_input_length, longest):
    """EOS takes a position, and the limit does not count it."""
    tokenizer = Tokenizer.train(LINES * 3, 40, mode="words")
    model = sharp_model(3, vocab_size=tokenizer.vocab_size, positions="learned", max_positions=max_positions)
    config = TranslationConfig(beam_size=1, max_extra=0, max_input_length=max_input_length)
    assert translate_lines(model, tokenizer, ["a " * longest], config)
    with pytest.raises(ShapeError, match=f"translate: line 1 must have at most {longest} tokens"):
        translate_lines(model, tokenizer, ["a " * (longest + 1)], config)


def test_odd_lines_give_as_many_lines_as_there_are(translated, rng):
    odd = [b"", b" ", b"\x00", b"\xc2\x85", "\u2028 a".encode(), b"a\rcat", b"a cat\r", b"\xef\xbb\xbf"]
    lines = [odd[number] for number in rng.integers(0, len(odd), 200)]
    code, output, error = translated(b"\n".join(lines))
    assert (code, len(output), error) == (0, len(lines) if lines[-1] else len(lines) - 1, "")

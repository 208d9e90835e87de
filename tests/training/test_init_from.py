"""Training that begins with parameters from elsewhere, and parameters that are not trained."""

from dataclasses import replace

import numpy as np
import pytest

from minitransformer.checkpoints import load_checkpoint
from minitransformer.config import Config, DataConfig, ModelConfig, TrainingConfig
from minitransformer.errors import CheckpointError, ConfigError, DataError
from minitransformer.text import PieceTokenizer, Tokenizer
from minitransformer.training import Corpus, Trainer

ENGLISH = ["the cat sleeps", "the dog sleeps", "a cat and a dog sleep", "the old dog sleeps here"] * 3
UNTIED = {"tie_embeddings": False}
RECURRENT = UNTIED | {"kind": "recurrent", "n_heads": 8, "d_ff": 2048}
GERMAN = ["die Katze schläft", "der Hund schläft", "eine Katze und ein Hund schlafen", "der alte Hund schläft"] * 3


def tokenizer_of(lines, size=330):
    return Tokenizer.train(lines, size)


def trainer(folder, tokenizer, updates=0, lines=(ENGLISH, GERMAN), **training):
    model = {"n_layers": 1, "d_model": 16, "n_heads": 2, "d_ff": 16, "p_drop": 0.0} | training.pop("model", {})
    training = {"directory": str(folder), "seed": 3, "updates": updates, "warmup_steps": 4} | training
    config = Config(model=ModelConfig(**model), training=TrainingConfig(**training), data=DataConfig(tgt_tokens=64))
    return Trainer(config, Corpus.from_lines(tokenizer, lines), progress=False)


@pytest.fixture
def other_run(tmp_path):
    """A checkpoint of 5 updates, and its tokenizer."""
    tokenizer = tokenizer_of(ENGLISH + GERMAN)
    trainer(tmp_path / "first", tokenizer, 5).run()
    return str(tmp_path / "first" / "checkpoints" / "update_00000005.npz"), tokenizer


def test_a_run_begins_with_the_parameters_of_another_and_its_own_schedule(other_run, tmp_path):
    path, tokenizer = other_run
    second = trainer(tmp_path / "second", tokenizer, init_from=path, seed=8)
    np.testing.assert_array_equal(second.model.parameters.data, load_checkpoint(path).parameters)
    assert second.update == second.optimizer.step_count == 0 and not second.optimizer.m.any()


def test_a_resumed_run_goes_on_from_its_own_parameters(other_run, tmp_path):
    path, tokenizer = other_run
    first = trainer(tmp_path / "second", tokenizer, 4, init_from=path)
    first.run()
    resumed = trainer(tmp_path / "second", tokenizer, 4, init_from=path)
    assert resumed.update == 4
    np.testing.assert_array_equal(resumed.model.parameters.data, first.model.parameters.data)


@pytest.mark.parametrize(
    "tables, model",
    [
        (["embedding"], {}),
        (["embedding", "tgt_embedding.table", "projection"], UNTIED),
        (["embedding", "tgt_embedding", "projection"], RECURRENT),
    ],
)
@pytest.mark.parametrize("mode", ["bytes", "words"])
def test_rows_of_another_vocabulary_are_matched_by_the_text_of_their_tokens(tables, model, mode, tmp_path):
    """With words there is none, as a symbol is no part of the same text."""
    old = tokenizer_of(ENGLISH + GERMAN)
    first = trainer(tmp_path / "first", old, 5, model=model)
    first.run()
    new = Tokenizer.train([line.replace("Katze", "Maus") for line in reversed(GERMAN)], 300, mode=mode)
    drawn = trainer(tmp_path / "drawn", new, model=model).model
    taken = trainer(tmp_path / "taken", new, init_from=str(tmp_path / "first"), model=model).model
    both = set(old.symbols) & set(new.symbols) if mode == "bytes" else set()
    assert mode == "words" or (both > set(new.base) and both < set(new.symbols))
    for name in tables:
        rows, own, other = (each.parameters[name].data for each in (first.model, taken, drawn))
        np.testing.assert_array_equal(own[:4], rows[:4])
        for number, symbol in enumerate(new.symbols, 4):
            source = rows[4 + old.symbols.index(symbol)] if symbol in both else other[number]
            np.testing.assert_array_equal(own[number], source)
    for name in set(taken.parameters.names) - set(tables):
        np.testing.assert_array_equal(taken.parameters[name].data, first.model.parameters[name].data)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda stored: {"table": stored.table[1:]}, "parameter embedding must have the model's shape"),
        (
            lambda stored: {"tokenizer_text": tokenizer_of(GERMAN, 700).dumps()},
            "the tokenizer must have the model's vocab_size, ",
        ),
    ],
)
def test_a_file_whose_parts_do_not_fit_is_refused_whatever_the_vocabulary(other_run, tmp_path, change, message):
    stored = load_checkpoint(other_run[0])
    replace(stored, **change(stored)).save(tmp_path / "other.npz")
    with pytest.raises(CheckpointError, match=rf"other\.npz: {message}"):
        trainer(tmp_path / "second", tokenizer_of(ENGLISH, 290), init_from=str(tmp_path / "other.npz"))


@pytest.mark.parametrize("key, stored, wanted", [("n_heads", 2, 4), ("norm", "post", "pre"), ("n_layers", 1, 2)])
@pytest.mark.parametrize("same_vocabulary", [True, False])
def test_a_model_with_other_settings_is_refused_by_name(other_run, tmp_path, key, stored, wanted, same_vocabulary):
    path, tokenizer = other_run
    tokenizer = tokenizer if same_vocabulary else tokenizer_of(ENGLISH, 290)
    with pytest.raises(CheckpointError, match=rf"model\.{key} must be {stored!r} to begin .* got {wanted!r}"):
        trainer(tmp_path / "second", tokenizer, init_from=path, model={key: wanted})


@pytest.mark.parametrize(
    "tables, model",
    [
        (["embedding"], {}),
        (["embedding", "tgt_embedding.table"], UNTIED),
        (["embedding", "tgt_embedding"], RECURRENT),
    ],
)
def test_word_vectors_become_the_embeddings_of_whole_words(tables, model, tmp_path, rng):
    tokenizer = tokenizer_of(ENGLISH + GERMAN)
    words, vectors = ["cat", "Hund", "zebra"], rng.normal(scale=7.0, size=(3, 16))
    lines = [" ".join([word, *map(str, vector)]) for word, vector in zip(words, vectors, strict=True)]
    path = tmp_path / "words.vec"
    path.write_text("\n".join(["3 16", *lines]) + "\n", encoding="utf-8")
    run = trainer(tmp_path / "run", tokenizer, init_from=str(path), model=model)
    plain = trainer(tmp_path / "drawn", tokenizer, model=model)
    ids = [tokenizer.encode(f"the {word}")[-1] for word in words[:2]]
    scale = 16**-0.5 / np.sqrt(np.mean(vectors[:2] ** 2))
    for name in tables:
        table, drawn = (each.model.parameters[name].data for each in (run, plain))
        np.testing.assert_allclose(table[ids], vectors[:2] * scale, rtol=1e-5)
        others = np.setdiff1d(np.arange(len(table)), np.flatnonzero((table != drawn).any(axis=1)))
        assert len(others) == len(table) - sum(symbol.strip() in words[:2] for symbol in tokenizer.symbols)


def test_with_two_vocabularies_each_table_has_the_rows_of_its_own(tmp_path):
    def tokenizer_of_pieces(src, tgt):
        pieces = ["\u2581", *(f"\u2581{line.split()[0]}" for line in ENGLISH + GERMAN)]
        fields = (b"\n" + bytes([len(piece.encode())]) + piece.encode() for piece in pieces)
        model = b"".join(b"\n" + bytes([len(field)]) + field for field in fields)
        return PieceTokenizer([model] * 2, [src, tgt])

    text, model = (["the"], ["der"]), {"tie_embeddings": False}
    src, tgt = ["\u2581the", "\u2581a"], [*"bcdefgh", "\u2581a", "\u2581der"]
    old, new = tokenizer_of_pieces(src, tgt), tokenizer_of_pieces(src[::-1], tgt[::-1])
    first = trainer(tmp_path / "first", old, 1, text, model=model)
    first.run()
    (tmp_path / "words.vec").write_text("".join(f"{word}{' 1' * 16}\n" for word in ("the", "der")))
    second, third = (
        trainer(tmp_path / f"from {path.name}", new, 0, text, model=model, init_from=str(path))
        for path in (tmp_path / "first", tmp_path / "words.vec")
    )
    for name, number in (("embedding", 5), ("tgt_embedding.table", 4)):
        table, moved, filled = (each.model.parameters[name].data for each in (first, second, third))
        np.testing.assert_array_equal(moved[4:], table[:3:-1])
        assert np.flatnonzero((filled == 0.25).all(axis=1)).tolist() == [number]
    stored = load_checkpoint(tmp_path / "first" / "checkpoints" / "update_00000001.npz")
    with pytest.raises(CheckpointError, match="the tokenizer must have the model's src_vocab_size, 6, got 7"):
        replace(stored, tokenizer_text=tokenizer_of_pieces([*src, "more"], tgt).dumps()).build()


def test_a_word_may_contain_spaces_of_unicode(tmp_path):
    """Those of fastText do: no-break spaces in numbers, and others."""
    lines = [f"{word}{' 1.5' * 16} \n" for word in ("10\u00a0000", "\u3000", "a\u2028b", "cat")]
    (tmp_path / "words.vec").write_text("".join(lines), encoding="utf-8")
    table = trainer(tmp_path / "run", tokenizer_of(ENGLISH), init_from=str(tmp_path / "words.vec"))
    assert (table.model.parameters["embedding"].data == 0.25).all(axis=1).any()


@pytest.mark.parametrize(
    "text, message",
    [
        ("cat 1 2\n", r"words\.vec:1: must be a word and d_model = 16 numbers within 1e\+30, got 'cat 1 2'"),
        ("1 16\n\n", r"words\.vec:2: must be"),
        ("cat" + " 1" * 15 + " nan\n", r"words\.vec:1: must be"),
        ("cat" + " 1" * 15 + " 1e200\n", r"words\.vec:1: must be"),
        ("zebra" + " 1" * 16 + "\n", "must have at least one word that is a token of the vocabulary, got none"),
        ("", "got none"),
    ],
)
def test_word_vectors_of_another_form_are_refused(tmp_path, text, message):
    (tmp_path / "words.vec").write_text(text)
    with pytest.raises(DataError, match=message):
        trainer(tmp_path / "run", tokenizer_of(ENGLISH), init_from=str(tmp_path / "words.vec"))


def test_frozen_parameters_stay_and_the_others_learn(tmp_path):
    tokenizer = tokenizer_of(ENGLISH + GERMAN)
    freeze = "encoder decoder.layers.0.feed_forward embedding"
    run = trainer(tmp_path / "run", tokenizer, 3, freeze=freeze, clip_norm=1e-3)
    parameters = run.model.parameters
    before = {name: parameters[name].data.copy() for name in parameters.names}
    run.run()
    changed = {name for name in before if (parameters[name].data != before[name]).any()}
    frozen = ("encoder.", "embedding", "decoder.layers.0.feed_forward.")
    assert changed == {name for name in before if not name.startswith(frozen)}
    assert np.linalg.norm(run.model.parameters.grad) == pytest.approx(1e-3, rel=1e-4)  # theirs alone are clipped


def test_a_frozen_name_that_no_parameter_has_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"names that begin with embedding, encoder, decoder, got 'encoder.layers.7'"):
        trainer(tmp_path / "run", tokenizer_of(ENGLISH), freeze="encoder.layers.7")

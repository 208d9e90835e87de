"""The text of the English-German recipe."""

from examples.en_de.prepare import prepare


def test_no_side_of_a_training_pair_stands_in_val_or_test(tmp_path):
    texts = {
        "train": [("a", "A"), ("b", "B"), ("c", "C"), ("d", "D")],
        "val": [("a", "X"), ("y", "Y")],
        "test": [("z", "C"), ("D", "d")],  # a sentence of the other language is no overlap
    }
    for name, pairs in texts.items():
        for number, language in enumerate(("en", "de")):
            (tmp_path / f"{name}.{language}").write_text("".join(f"{pair[number]}\n" for pair in pairs))
    assert prepare(tmp_path) == "2 of 4 pairs are kept; a side of the others is in val or test"
    assert (tmp_path / "clean.en").read_text() == "b\nd\n" and (tmp_path / "clean.de").read_text() == "B\nD\n"

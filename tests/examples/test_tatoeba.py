"""The text of the Tatoeba recipes."""

from examples.tatoeba.prepare import prepare


def test_no_side_of_a_training_pair_stands_in_val_or_test(tmp_path):
    texts = {
        "train": [("a", "A"), ("b", "B"), ("c", "C"), ("d", "D")],
        "val": [("a", "X"), ("y", "Y")],
        "test": [("z", "C"), ("D", "d")],  # a sentence of the other language is no overlap
    }
    folder = tmp_path / "tatoeba_en_de"
    folder.mkdir()
    for name, pairs in texts.items():
        for number, language in enumerate(("en", "de")):
            (folder / f"{name}.{language}").write_text("".join(f"{pair[number]}\n" for pair in pairs))
    assert prepare(folder) == "2 of 4 pairs are kept; a side of the others is in val or test"
    assert (folder / "clean.en").read_text() == "b\nd\n" and (folder / "clean.de").read_text() == "B\nD\n"

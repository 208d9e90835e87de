"""Number words for the notebooks, from ``examples/number_words.py``: a checkout has it, an installation has not.

``python -m course.number_words FOLDER`` writes 10,000 pairs, a tokenizer and ``numbers.toml``, to train in minutes.
"""

import argparse
from pathlib import Path

from course.exercise import LESSONS, module_at
from minitransformer.text import Tokenizer

CONFIG = """\
[model]
n_layers = 1
d_model = 64
d_ff = 256
n_heads = 4
p_drop = 0.0
[data]
train_src = "{0}/train.en"
train_tgt = "{0}/train.de"
tokenizer = "{0}/bpe.txt"
src_tokens = 512
tgt_tokens = 512
[training]
directory = "{0}"
updates = 1500
warmup_steps = 300
lr_scale = 0.5
"""


_example = module_at(LESSONS.parent / "examples" / "number_words.py")
draw_numbers, english, german = _example.draw_numbers, _example.english, _example.german


def write_task(folder: Path) -> None:
    """Text, tokenizer and config of a training that takes minutes."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = draw_numbers(10_000, seed=1)
    texts = {"en": [english(number) for number in numbers], "de": [german(number) for number in numbers]}
    for side, lines in texts.items():
        (folder / f"train.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    Tokenizer.train([*texts["en"], *texts["de"]], vocab_size=400).save(folder / "bpe.txt")
    (folder / "numbers.toml").write_text(CONFIG.format(folder.as_posix()), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m course.number_words", description=write_task.__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    write_task(parser.parse_args().folder)

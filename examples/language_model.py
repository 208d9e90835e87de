"""A character-level language model: it learns to predict the next character of a text, and continues a prompt.

    twenty-nine, thirty, thirty-one,  ->  thirty-two, thirty-three, thirty-four, ...

Without a file the text is made by a rule: people who count aloud from some number below ten thousand. The model is a
decoder-only one (models/language_model.py); the Trainer, the checkpoints, the search and its cache are those of
translation.

    python examples/language_model.py                                    about two minutes on two cores
    python examples/language_model.py --text book.txt --prompt "It was"  any UTF-8 text
"""

import argparse
import os
import random
import sys
from pathlib import Path

# Matrices this small gain next to nothing from a second thread, and lose much where another program has its core.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from minitransformer.checkpoints import load_model
from minitransformer.cli.common import report_errors
from minitransformer.cli.main import Parser
from minitransformer.cli.options import add_number
from minitransformer.config import UNK, Config, DataConfig, ModelConfig, TrainingConfig
from minitransformer.errors import ConfigError
from minitransformer.figures import draw_learning_curves, picture_bytes
from minitransformer.generation import beam_search
from minitransformer.models import Model
from minitransformer.text import pad_batch, read_lines
from minitransformer.training import Corpus, Trainer, read_metrics

ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
TENS = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()


def number_word(number: int) -> str:
    """4321 -> "four thousand three hundred twenty-one", for 0 to 9,999"""
    if number < 20:
        return ONES[number]
    if number < 100:
        return TENS[number // 10] + (f"-{ONES[number % 10]}" if number % 10 else "")
    size, word = (100, "hundred") if number < 1000 else (1000, "thousand")
    head, rest = divmod(number, size)
    return f"{number_word(head)} {word}" + (f" {number_word(rest)}" if rest else "")


def counting(n_lines: int, seed: int) -> list[str]:
    """Lines of four numbers in a row, half of them below a hundred."""
    rng = random.Random(seed)
    starts = [rng.randrange(97 if line % 2 else 9997) for line in range(n_lines)]
    return [", ".join(number_word(start + i) for i in range(4)) + "." for start in starts]


def cut(text: list[str], length: int) -> list[str]:
    """The lines that are not empty, long ones in parts of ``length`` characters."""
    parts = [line[start : start + length] for line in text for start in range(0, len(line), length)]
    if len(parts) < 100:
        raise ConfigError(f"the text must have at least 100 lines of up to {length} characters, got {len(parts)}")
    return parts


def held_out(lines: list[str]) -> tuple[list[str], list[str]]:
    """All but the first fiftieth, to learn from; and of that, to validate with, what does not occur in the others."""
    n_held = max(1, len(lines) // 50)
    known = set(lines[n_held:])
    unseen = [line for line in lines[:n_held] if line not in known]
    if not unseen:
        raise ConfigError(f"the first lines of the text must not all be repeated later, got {n_held} of which all are")
    return lines[n_held:], unseen


def continued(model: Model, characters: str, prompt: str, n_more: int) -> str:
    """The prompt and its most probable continuation, by a beam of four."""
    ids = [UNK + 1 + characters.index(each) for each in prompt]
    best = beam_search(model, pad_batch([ids], [[]]).src, max_extra=max(0, n_more - len(ids)))[0][0]
    return prompt + "".join(characters[token - UNK - 1] for token in best.ids if token > UNK)


def make_config(arguments: argparse.Namespace, n_characters: int) -> Config:
    return Config(
        model=ModelConfig(
            kind="language_model",
            vocab_size=UNK + 1 + n_characters,
            n_layers=2,
            d_model=96,
            d_ff=384,
            n_heads=4,
            p_drop=0.0,
            label_smoothing=0.0,
        ),
        data=DataConfig(src_tokens=2048, tgt_tokens=2048),
        training=TrainingConfig(
            directory=arguments.directory,
            seed=arguments.seed,
            updates=arguments.updates,
            micro_batches=2,
            warmup_steps=300,
            lr_scale=0.7,
            log_every=25,
            validate_every=250,
            save_every=250,
            keep_checkpoints=2,
        ),
    )


@report_errors
def main() -> int:
    parser = Parser(description=__doc__)
    parser.add_argument("--text", type=Path, metavar="FILE", help="UTF-8 text to learn (default: counting aloud)")
    parser.add_argument("--prompt", action="append", help="text to be continued; may be given several times")
    add_number(parser, "--length", 160, "characters of a line at most")
    add_number(parser, "--updates", 1500, "updates of the parameters")
    parser.add_argument("--seed", type=int, default=1, help="of text, weights and order (default 1)")
    parser.add_argument("--directory", default="runs/language_model", help="default runs/language_model")
    arguments = parser.parse_args()

    lines = cut(read_lines(arguments.text) if arguments.text else counting(30_000, arguments.seed), arguments.length)
    characters = "".join(sorted(set("".join(lines))))
    counted = ["twenty-nine, thirty,", "ninety-eight, ninety-nine,", "seven thousand nine"]
    prompts = arguments.prompt or ([lines[0][:12]] if arguments.text else counted)
    if unknown := sorted(set("".join(prompts)) - set(characters)):
        raise ConfigError(f"--prompt must consist of characters of the text, got {''.join(unknown)!r}")
    train, valid = ([[UNK + 1 + characters.index(each) for each in line] for line in part] for part in held_out(lines))
    config = make_config(arguments, len(characters))
    print(f"learning from {sum(map(len, train)):,} characters, {len(characters)} different ones", flush=True)
    trainer = Trainer(config, Corpus.one_sided(train, valid))
    outcome = trainer.run()
    if outcome.signal is not None:
        return outcome.exit_status

    folder = Path(arguments.directory)
    model, _ = load_model(trainer.folder.path_of(outcome.update))
    metrics = read_metrics(trainer.folder.metrics)
    nll = next(line["nll"] for line in reversed(metrics) if line["kind"] == "valid")
    sample = [
        f"{nll:.3f} nats a character on lines it never saw",
        *(continued(model, characters, p, 120) for p in prompts),
    ]
    print(*sample, sep="\n")
    (folder / "sample.txt").write_text("\n".join(sample) + "\n", encoding="utf-8")
    (folder / "curves.png").write_bytes(picture_bytes(draw_learning_curves({"characters": metrics})))
    print(f"picture of the loss: {folder / 'curves.png'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

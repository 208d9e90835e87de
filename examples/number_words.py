"""Translate English number words into German ones: a real translation task that needs no download.

    seven hundred forty-three thousand two hundred five  ->  siebenhundertdreiundvierzigtausendzweihundertfünf

The order of ones and tens is reversed, words are joined, and forms depend on what follows: eins, but einundzwanzig and
eintausend. The model sees up to 100,000 of the million numbers and is then tested on 1,000 that it never saw.

    python examples/number_words.py        two to six minutes on two cores
"""

import argparse
import os
import random
import sys
import time
from pathlib import Path

# Matrices this small gain next to nothing from a second thread, and lose much where another program has its core.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from minitransformer.checkpoints import average_checkpoints
from minitransformer.cli.common import report_errors
from minitransformer.cli.main import Parser
from minitransformer.cli.options import add_number
from minitransformer.config import EOS, Config, DataConfig, ModelConfig, TrainingConfig, TranslationConfig
from minitransformer.errors import ConfigError
from minitransformer.figures import draw_attention, picture_bytes
from minitransformer.generation import translate_lines
from minitransformer.models import Transformer
from minitransformer.text import Tokenizer, pad_batch
from minitransformer.training import Corpus, Trainer

ENGLISH = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
ENGLISH_TENS = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()
GERMAN = (
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn "
    "achtzehn neunzehn"
).split()
GERMAN_TENS = "- - zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()
LIMIT = 1_000_000
AVERAGED = 10  # checkpoints whose mean is tested, as in sec. 6.1: it is steadier than the last one
SHOWN = (7, 21, 101, 1_001, 61_016, 743_205, 999_999)  # never trained on


def english(number: int) -> str:
    """743205 -> "seven hundred forty-three thousand two hundred five", for 0 to 999,999"""
    if number < 20:
        return ENGLISH[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return ENGLISH_TENS[tens] + (f"-{ENGLISH[ones]}" if ones else "")
    size, word = (100, "hundred") if number < 1000 else (1000, "thousand")
    head, rest = divmod(number, size)
    return f"{english(head)} {word}" + (f" {english(rest)}" if rest else "")


def german(number: int, *, stands_alone: bool = True) -> str:
    """743205 -> "siebenhundertdreiundvierzigtausendzweihundertfünf"; 1 is "eins" at the end and "ein" before a word"""
    if number == 1 and not stands_alone:
        return "ein"
    if number < 20:
        return GERMAN[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return (f"{german(ones, stands_alone=False)}und" if ones else "") + GERMAN_TENS[tens]
    size, word = (100, "hundert") if number < 1000 else (1000, "tausend")
    head, rest = divmod(number, size)
    return german(head, stands_alone=False) + word + (german(rest, stands_alone=stands_alone) if rest else "")


def draw_numbers(count: int, seed: int) -> list[int]:
    """``count`` different numbers, half of them below a limit of three to six digits so that short ones occur."""
    if count > LIMIT // 2:
        raise ConfigError(f"numbers must be at most {LIMIT // 2:,} in all, got {count:,}")
    rng, drawn = random.Random(seed), set()
    while len(drawn) < count:
        limit = 10 ** rng.randint(3, 6) if len(drawn) % 2 else LIMIT
        number = rng.randrange(limit)
        if number not in SHOWN:
            drawn.add(number)
    numbers = sorted(drawn)
    rng.shuffle(numbers)
    return numbers


def make_config(arguments: argparse.Namespace) -> Config:
    return Config(
        model=ModelConfig(n_layers=2, d_model=64, d_ff=256, n_heads=4, p_drop=0.0, label_smoothing=0.1),
        # Two batches, of one length each, make an update: about 250 numbers.
        data=DataConfig(src_tokens=512, tgt_tokens=512),
        training=TrainingConfig(
            directory=arguments.directory,
            seed=arguments.seed,
            updates=arguments.updates,
            warmup_steps=500,
            lr_scale=0.5,
            log_every=50,
            micro_batches=2,
            validate_every=500,
            save_every=100,
            keep_checkpoints=AVERAGED,
        ),
        translation=TranslationConfig(beam_size=1),
    )


@report_errors
def main() -> int:
    parser = Parser(description=__doc__)
    add_number(parser, "--updates", 3500, "updates of the parameters")
    add_number(parser, "--numbers", 100_000, "numbers to learn from")
    add_number(parser, "--unseen", 1000, "other numbers to test with")
    parser.add_argument("--seed", type=int, default=1, help="seed of data, weights and order (default 1)")
    parser.add_argument("--directory", default="runs/number_words", help="default runs/number_words")
    arguments = parser.parse_args()

    n = arguments.unseen
    numbers = draw_numbers(arguments.numbers + 2 * n, seed=arguments.seed)
    unseen, valid, train = numbers[:n], numbers[n : 2 * n], numbers[2 * n :]
    pairs = {
        name: ([english(n) for n in part], [german(n) for n in part])
        for name, part in (("train", train), ("valid", valid), ("unseen", unseen))
    }
    tokenizer = Tokenizer.train([*pairs["train"][0][:20000], *pairs["train"][1][:20000]], vocab_size=400)
    config = make_config(arguments)

    print(f"learning from {len(train):,} numbers, vocabulary of {tokenizer.vocab_size} tokens", flush=True)
    began = time.monotonic()
    trainer = Trainer(config, Corpus.from_lines(tokenizer, pairs["train"], pairs["valid"]))
    outcome = trainer.run()
    print(f"{outcome.update} updates; this run took {time.monotonic() - began:.0f} s")
    if outcome.signal is not None:
        return outcome.exit_status

    checkpoints = trainer.folder.paths()[-AVERAGED:]
    model, _ = average_checkpoints(checkpoints).build()
    print(f"testing the mean of the last {len(checkpoints)} checkpoints")
    sources, references = pairs["unseen"]
    answers = translate_lines(model, tokenizer, sources, config.translation, progress=True)
    right = sum(answer == reference for answer, reference in zip(answers, references, strict=True))
    print(f"\n{right} of {len(unseen)} numbers never seen in training are translated exactly right; some others:\n")
    shown = translate_lines(model, tokenizer, [english(n) for n in SHOWN], config.translation)
    for number, answer in zip(SHOWN, shown, strict=True):
        mark = "right" if answer == german(number) else f"wrong, it is {german(number)}"
        print(f"{number:>9,}  {english(number)}\n           {answer}   ({mark})")
    draw_picture(model, tokenizer, 743_205, Path(arguments.directory) / "attention.png")
    return 0


def draw_picture(model: Transformer, tokenizer: Tokenizer, number: int, path: Path) -> None:
    """The decoder's attention to the English words while it writes the German ones, last layer."""
    src, tgt = tokenizer.encode(english(number)), tokenizer.encode(german(number))
    batch = pad_batch([src], [tgt])
    maps = model.attention_maps(batch.src, batch.tgt_in)
    weights = maps[f"decoder.{model.config.n_layers - 1}.cross_attention"][0]  # (H, T, S)
    figure = draw_attention(
        weights,
        tokenizer.subwords([*src, EOS]),
        tokenizer.subwords([*tgt, EOS]),
        title=f"{number:,} in English and German",
    )
    path.write_bytes(picture_bytes(figure))
    print(f"\npicture of the attention: {path}")


if __name__ == "__main__":
    sys.exit(main())

"""Trainings that go wrong on purpose: the curves and outputs in docs/troubleshooting.md.

``python -m examples.troubleshooting`` trains the number words of examples/number_words.py eight times for 1,000
updates, once correctly and once with each fault, and writes docs/troubleshooting.json and docs/troubleshooting.png.
About ten minutes on one core.
"""

import json
import math
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import numpy as np

from examples import number_words, report_errors
from examples.report import machine_facts
from minitransformer.cli.main import Parser
from minitransformer.config import Config, DataConfig, ModelConfig, TrainingConfig, TranslationConfig
from minitransformer.errors import MiniTransformerError
from minitransformer.figures.canvas import new_figure, picture_bytes
from minitransformer.files import write_text
from minitransformer.generation import translate_lines
from minitransformer.text import Tokenizer
from minitransformer.training import Corpus, Trainer, read_metrics

DOCS = Path(__file__).parents[1] / "docs"
UPDATES, PAIRS, UNSEEN = 1000, 20_000, 100
FAULTS: dict[str, dict] = {
    "as it should be": {},
    "rate 100 times too low": {"lr_scale": 0.005},
    "warm-up longer than the run": {"warmup_steps": 40_000},
    "rate 20 times too high": {"lr_scale": 10.0},
    "six layers, post-norm, short warm-up": {"n_layers": 6, "lr_scale": 2.0, "warmup_steps": 100},
    "the same in pre-norm": {"n_layers": 6, "lr_scale": 2.0, "warmup_steps": 100, "norm": "pre"},
    "targets one line off": {"shift": 1},
    "only 200 pairs": {"pairs": 200},
}


def config_of(directory: str, fault: dict) -> Config:
    model = {"n_layers": 2, "norm": "post"} | {key: fault[key] for key in ("n_layers", "norm") if key in fault}
    training = {"lr_scale": 0.5, "warmup_steps": 300}
    training |= {key: fault[key] for key in ("lr_scale", "warmup_steps") if key in fault}
    return Config(
        model=ModelConfig(d_model=64, d_ff=256, n_heads=4, p_drop=0.0, **model),
        data=DataConfig(src_tokens=512, tgt_tokens=512),
        training=TrainingConfig(
            directory=directory,
            updates=UPDATES,
            micro_batches=2,
            threads=1,
            log_every=20,
            validate_every=100,
            **training,
        ),
        translation=TranslationConfig(beam_size=1),
    )


def measure(name: str, fault: dict) -> dict:
    """Train with the fault: curves of the loss, and how the outputs for unseen numbers look."""
    numbers = number_words.draw_numbers(PAIRS + 2 * UNSEEN, seed=1)
    english, german = ([spell(n) for n in numbers] for spell in (number_words.english, number_words.german))
    held = [(side[:UNSEEN], side[UNSEEN : 2 * UNSEEN]) for side in (english, german)]
    train = (english[2 * UNSEEN :][: fault.get("pairs")], german[2 * UNSEEN :][: fault.get("pairs")])
    shift = fault.get("shift", 0)
    train = (train[0], train[1][shift:] + train[1][:shift])
    tokenizer = Tokenizer.train([*english, *german], vocab_size=400)
    with tempfile.TemporaryDirectory() as folder:
        config = config_of(folder, fault)
        trainer = Trainer(config, Corpus.from_lines(tokenizer, train, (held[0][1], held[1][1])))
        try:
            trainer.run()
        except MiniTransformerError as error:
            return {"fault": name, "stopped": str(error), "curve": _curve(folder, "train"), "valid": []}
        outputs = translate_lines(trainer.model, tokenizer, held[0][0], config.translation)
        return {
            "fault": name,
            "changes": fault,
            "training": {key: value for key, value in asdict(config.training).items() if key != "directory"},
            "curve": _curve(folder, "train"),
            "valid": _curve(folder, "valid"),
            **describe(outputs, held[1][0], tokenizer),
        }


def _curve(folder: str, kind: str) -> list[tuple[int, float]]:
    lines = read_metrics(Path(folder) / "metrics.jsonl")
    return [(line["update"], round(line["nll"], 4)) for line in lines if line["kind"] == kind]


def describe(outputs: list[str], references: list[str], tokenizer: Tokenizer) -> dict:
    """What a user sees: outputs that are right, are alike, begin alike, are too short or long; and an example."""
    ids, wanted = tokenizer.encode_lines(outputs), tokenizer.encode_lines(references)
    first = [line[0] if line else None for line in ids]
    return {
        "right": sum(one == two for one, two in zip(outputs, references, strict=True)),
        "distinct": len(set(outputs)),
        "begin_alike": max(map(first.count, set(first))),
        "length_ratio": round(sum(map(len, ids)) / sum(map(len, wanted)), 3),
        "example": outputs[0][:80],
        "reference": references[0],
    }


def draw(results: list[dict]) -> bytes:
    """Training in the left panel, validation in the right one; ln V is the loss of a model that knows nothing."""
    figure = new_figure(9, 4.8)
    panels = figure.subplots(1, 2, sharey=True)
    for panel, key, title in zip(panels, ("curve", "valid"), ("training", "validation"), strict=True):
        for number, result in enumerate(results):
            updates, losses = zip(*result[key], strict=True) if result[key] else ((), ())
            panel.plot(updates, losses, label=result["fault"], color=f"C{number}", linewidth=1.6)
        panel.axhline(math.log(400), color="gray", linestyle=":", linewidth=1)
        panel.set(title=title, xlabel="update", ylim=(0, 7))
    panels[0].text(UPDATES, math.log(400) + 0.08, "ln V", color="gray", fontsize=8, ha="right")
    panels[0].set_ylabel("negative log-likelihood, nats per token")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8, frameon=False
    )
    return picture_bytes(figure)


@report_errors
def main() -> int:
    Parser(prog="python -m examples.troubleshooting", description=__doc__).parse_args()
    results = []
    for name, fault in FAULTS.items():
        results.append(measure(name, fault))
        print(
            {key: value for key, value in results[-1].items() if key not in ("curve", "valid", "training")}, flush=True
        )
    facts = {"command": "python -m examples.troubleshooting", "seed": 1, "updates": UPDATES, "machine": machine_facts()}
    write_text(
        DOCS / "troubleshooting.json", json.dumps(facts | {"results": results}, indent=1, ensure_ascii=False) + "\n"
    )
    (DOCS / "troubleshooting.png").write_bytes(draw(results))
    return 0


if __name__ == "__main__":
    np.seterr(all="ignore")
    sys.exit(main())

"""How long a training would take at the speeds that others have published.

python -m benchmarks.published_speeds CONFIG [--set KEY=VALUE] [--length 32]
"""

import sys
from dataclasses import dataclass

from minitransformer.cli.common import with_vocabulary
from minitransformer.cli.main import Parser
from minitransformer.cli.options import add_config_options, add_number
from minitransformer.config import Config, ModelConfig
from minitransformer.planning import batch_flops


@dataclass(frozen=True)
class Record:
    """A published training speed: target tokens/s of ``model`` on one GPU and on eight."""

    name: str
    model: ModelConfig
    one: float
    eight: float


RECORDS = (
    Record("P100, float32: the paper's 0.4 s a base step on eight", ModelConfig.base(), 25_000 / 0.4 / 8, 25_000 / 0.4),
    Record("P100, float32: the paper's 1.0 s a big step on eight", ModelConfig.big(), 25_000 / 1.0 / 8, 25_000 / 1.0),
    Record("A100, TF32: NVIDIA's big Transformer", ModelConfig.big(), 51_057, 347_936),
    Record("A100, mixed precision: NVIDIA's big Transformer", ModelConfig.big(), 82_059, 551_599),
)
"""[sec. 5.2; NVIDIA DeepLearningExamples, Transformer for PyTorch]; one P100 as an eighth of the paper's eight."""


def expected_hours(model: ModelConfig, tgt_tokens: float, record: Record, length: int = 30) -> tuple[float, float]:
    """(hours on one GPU, on eight) for ``tgt_tokens`` target tokens, if this model ran at the FLOP/s of ``record``.

    length: tokens of a sentence, on which the share of attention depends
    """
    slower = batch_flops(model, 1, length, length) / batch_flops(record.model, 1, length, length)
    work = tgt_tokens * slower / 3600
    return work / record.one, work / record.eight


def main(argv: list[str] | None = None) -> int:
    parser = Parser(prog="python -m benchmarks.published_speeds", description=__doc__.split("\n")[0])
    add_config_options(parser, "TOML file, as for train")
    add_number(parser, "--length", 32, "tokens of a sentence on either side")
    arguments = parser.parse_args(argv)
    config = with_vocabulary(Config.load(arguments.config, arguments.settings))
    settings, tokens = config.training, min(config.data.src_tokens, config.data.tgt_tokens)
    print(f"{'hours':<56}{'1 GPU':>9}{'8 GPUs':>10}")
    for record in RECORDS:
        updates = settings.updates * settings.micro_batches
        one, eight = expected_hours(config.model, updates * tokens, record, arguments.length)
        print(f"{record.name:<54}{one:>11,.1f}{eight:>10,.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Trains the PyTorch replica by the recipe of one of our configs, so that the loss curves can be compared.

    python -m benchmarks.multi30k_torch CONFIG --updates 500

Same tokenizer, same batches in the same order, same initial weights, schedule and Adam; dropout masks are PyTorch's
own. It writes lines of kind ``train`` like the Trainer's; ``benchmarks.compare_curves`` compares them with ours.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from tqdm import tqdm

from benchmarks.peers.torch_model import TorchTransformer
from benchmarks.peers.torch_step import torch_adam, torch_train_step
from minitransformer.config import Config
from minitransformer.errors import ConfigError, MiniTransformerError
from minitransformer.models import Transformer
from minitransformer.text import BatchStream
from minitransformer.training import Corpus
from minitransformer.training.metrics import Meter
from minitransformer.training.recorder import MetricsRecorder


def train(config: Config, corpus: Corpus, path: Path, *, updates: int, log_every: int, progress: bool = True):
    """``updates`` updates of the replica of ``Transformer(config.model, training.seed)``; returns the replica.

    path: the file of metrics
    """
    settings, k = config.training, config.training.micro_batches
    pieces = corpus.tokenizer.vocab_size if corpus.tokenizer else config.model.vocab_size
    model = TorchTransformer.from_ours(Transformer(replace(config.model, vocab_size=pieces), seed=settings.seed))
    optimizer = torch_adam(model, settings)
    torch.manual_seed(settings.seed)
    budgets = {"src_tokens": config.data.src_tokens, "tgt_tokens": config.data.tgt_tokens}
    stream = BatchStream(*corpus.train, **budgets, seed=settings.seed)
    meter = Meter()
    recorder = MetricsRecorder(path, True, log_every, lambda update: stream.position((update - 1) * k)[0] + 1)
    bar = tqdm(range(1, updates + 1), unit="update", disable=not progress, mininterval=2.0)
    for update in bar:
        step_began = time.monotonic()
        batches = [stream.batch(number) for number in range((update - 1) * k, update * k)]
        result = torch_train_step(model, optimizer, batches, update=update, config=settings)
        meter.add(result, time.monotonic() - step_began)
        if update % log_every == 0:
            seen = meter.losses() | {"learning_rate": result.learning_rate} | meter.speed()
            recorder.write("train", update, seen)
            bar.set_postfix_str(f"loss {seen['loss']:.3f}", refresh=False)
            meter = Meter()
    return model


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.multi30k_torch", description=__doc__.split("\n")[0])
    parser.add_argument("config", help="TOML file, the one that `minitransformer train` is given")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="override a key")
    parser.add_argument("--updates", type=int, default=500, help="updates (default: 500)")
    parser.add_argument("--log-every", type=int, default=10, help="updates between two lines (default: 10)")
    parser.add_argument("--metrics", type=Path, help="file to write (default: metrics_torch.jsonl in the run's folder)")
    parser.add_argument("--threads", type=int, default=2, help="threads of PyTorch (default: 2)")
    options = parser.parse_args(argv)
    try:
        config = Config.load(options.config, options.set)
        path = options.metrics or Path(config.training.directory) / "metrics_torch.jsonl"
        if path.exists():
            raise ConfigError(f"multi30k_torch: {path} must not exist yet, got a file; delete it or give --metrics")
        torch.set_num_threads(options.threads)
        corpus = Corpus.from_files(config.data)
        path.parent.mkdir(parents=True, exist_ok=True)
        train(config, corpus, path, updates=options.updates, log_every=options.log_every)
    except MiniTransformerError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

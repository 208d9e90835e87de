"""``train --rules FOLDER``: the user's own functions replace rules of the engine.

``rules.py``, a program beside the folder, knows how. It defines ``own_rules(folder, say)``: a context manager within
which training runs with the folder's functions, and which yields their names and the hashes of their sources.
``lessons/rules.py`` is an example.
"""

import runpy
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from minitransformer.backend import load_array_module
from minitransformer.config import Config
from minitransformer.errors import ConfigError, MiniTransformerError


@contextmanager
def rules_of(folder: Path, config: Config, n_ranks: int, say: Callable[[str], object]) -> Iterator[Mapping[str, str]]:
    """Run ``rules.py`` and the code in ``folder``; within the block its functions compute. Yields names and hashes.

    Raises:
        ConfigError: there is no such folder or program, it fails or refuses the folder's functions, or training would
            need several threads, ranks or a GPU.
    """
    _check_place(config, n_ranks)
    program = folder.resolve().parent / "rules.py"
    if not folder.is_dir():
        raise ConfigError(f"--rules must name a folder, got {folder}")
    if not program.is_file():
        raise ConfigError(f"--rules must name a folder with a rules.py beside it, as lessons/mine has, got {folder}")
    sys.path.insert(0, str(program.parent))
    try:
        own_rules = runpy.run_path(str(program))["own_rules"]
    except MiniTransformerError:
        raise
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise ConfigError(f"--rules: {program} must define own_rules, got {type(error).__name__}: {error}") from error
    with own_rules(folder.resolve(), say) as hashes:
        yield hashes


def _check_place(config: Config, n_ranks: int) -> None:
    """The functions are called by one thread of one process, with NumPy arrays."""
    training = config.training
    if n_ranks > 1:
        raise ConfigError(f"--rules: there must be one rank, got {n_ranks}")
    if training.micro_batches > 1 and training.threads != 1:
        raise ConfigError(f"--rules: training.threads must be 1 to use it, got {training.threads}")
    if load_array_module(config.execution.device) is not np:
        raise ConfigError("--rules: execution.device must be cpu, got a GPU")

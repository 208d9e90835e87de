"""The engine trains with the student's functions: ``minitransformer train CONFIG --rules lessons/mine``."""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np

from course.adapters import ADAPTERS, Functions, adapted
from course.calls import error_text
from course.exercise import find_exercise
from course.limits import Raised, within
from course.mine import FOLDER, own_or_solution, source_hash
from course.slowness import slowness
from minitransformer.config import ModelConfig, TrainingConfig
from minitransformer.errors import ConfigError
from minitransformer.kernels import using_kernels
from minitransformer.models import Transformer
from minitransformer.nn import positions
from minitransformer.ops.registry import RULES
from minitransformer.optim import Adam, schedule
from minitransformer.text import pad_batch
from minitransformer.training import step

# -- what the table of kernels does not hold --------------------------------------------------------------------------


def own_adam(f: Functions):
    def step_of(adam, rate):
        adam.step_count += 1
        vectors, settings = (adam.parameters.data, adam.m, adam.v), (adam.beta1, adam.beta2, adam.eps)
        w, m, v = vectors
        new = f["11_training.adam_step"](w, adam.parameters.grad, m, v, adam.step_count, rate, *settings)
        for vector, values in zip(vectors, new, strict=True):
            vector[...] = values

    return patch.object(Adam, "step", step_of)


def own_schedule(f: Functions):
    def rate(update, d_model, warmup_steps, scale=1.0):
        return scale * f["11_training.schedule"](update, d_model, warmup_steps)

    return patch.object(schedule, "learning_rate", rate)


def own_sinusoids(f: Functions):
    def table(start, stop, d_model, base=10000.0):
        return f["08_positions.sinusoids"](stop, d_model)[start:]

    return patch.object(positions, "sinusoids", table)


PLACES = {
    "Adam": (own_adam, ["11_training.adam_step"]),
    "the schedule": (own_schedule, ["11_training.schedule"]),
    "the sinusoids": (own_sinusoids, ["08_positions.sinusoids"]),
}
NAMES = sorted({name for _, names in [*ADAPTERS.values(), *PLACES.values()] for name in names})
"""The exercises whose functions have a place in the engine."""
SECONDS = 10.0
"""Time limit of two updates of a small model, which take a hundredth of that."""


@contextmanager
def in_place(part: str, f: Functions) -> Iterator[None]:
    """Within the block this part of the engine is computed by the student's functions."""
    with using_kernels({(part, "numpy"): adapted(RULES[part], f)}) if part in ADAPTERS else PLACES[part][0](f):
        yield


# -- checked, named, counted ------------------------------------------------------------------------------------------


@contextmanager
def own_rules(place: Path, say: Callable[[str], object]) -> Iterator[dict[str, str]]:
    """Within the block the engine trains with the functions in ``place``. Gives the hash of each one's source.

    What is theirs, what is not, what is slow and how often each was called is said.

    Raises:
        ConfigError: there is a file of no exercise, no right function, or one with other results than the engine's.
    """
    with patch.dict(os.environ, {FOLDER: str(place)}):
        functions, calls = chosen(place, say), Counter()
        own = [name for name, (_, fault) in functions.items() if not fault]
        f = {name: counted(name, function, calls) for name, (function, _) in functions.items()}
        parts = {part: names for part, (_, names) in (ADAPTERS | PLACES).items() if not set(own).isdisjoint(names)}
        for part, names in parts.items():
            compare(part, names, f)
        with ExitStack() as stack:
            before = trial()
            for part in parts:
                stack.enter_context(in_place(part, f))
            say(f"an update takes {trial().seconds / before.seconds:.1f} times the processor time of the plain rules")
            calls.clear()
            yield {name: source_hash([name]) for name in own}
        say("calls of yours: " + ", ".join(f"{name} {calls[name]:,}" for name in own))


def chosen(place: Path, say: Callable[[str], object]) -> dict[str, tuple[Callable, str]]:
    """The function of each exercise that has a place, and why it is not the student's ("": it is)."""
    for path in place.glob("*.py"):
        try:
            find_exercise(path.stem)
        except KeyError as error:
            raise ConfigError(f"--rules: {path}: {error.args[0]}") from None
    functions = {name: own_or_solution(name) for name in NAMES}
    others = [name for name, (_, fault) in functions.items() if fault]
    if len(others) == len(NAMES):
        raise ConfigError(f"--rules: {place} must hold a right function of one of these exercises: {', '.join(NAMES)}")
    for name, (function, fault) in functions.items():
        if (place / f"{name}.py").exists() and (remark := fault or slowness(name, function)):
            say(f"{name}: {remark}")
    ours = f"; the engine's own, or the solution beside yours: {', '.join(others)}" if others else ""
    say(f"yours: {len(NAMES) - len(others)} of {len(NAMES)}{ours}")
    return functions


def counted(name: str, function: Callable, calls: Counter) -> Callable:
    """The function, whose calls are counted and whose errors name its exercise."""

    def call(*arguments):
        calls[name] += 1
        try:
            return function(*arguments)
        except Exception as error:
            raise ConfigError(f"--rules: {name} raised {error_text(error)}") from error

    return call


def compare(part: str, names: Sequence[str], f: Functions) -> None:
    """Refuse functions that do not train as the engine does: the same losses and parameters, with and without dropout.

    Raises:
        ConfigError: names the part of the engine and the exercises.
    """
    for p_drop in (0.0, 0.2):
        expected = trial(p_drop)
        try:
            with in_place(part, f):
                got = within(SECONDS, lambda p_drop=p_drop: trial(p_drop))
        except TimeoutError:
            trouble = f"a model that had not returned after {SECONDS:g} s"
        except Raised as raised:
            if isinstance(raised.__cause__, ConfigError):
                raise raised.__cause__ from None
            trouble = error_text(raised.__cause__)
        else:
            if np.allclose(got.state, expected.state, rtol=1e-8, atol=1e-10):
                continue
            trouble = "another update than the engine's"
        raise ConfigError(f"--rules: {' and '.join(names)} must do the work of {part}, got {trouble}")


class Trial(NamedTuple):
    """losses, parameters and Adam's means after two updates, in one vector; the least processor time of an update"""

    state: np.ndarray
    seconds: float


def trial(p_drop: float = 0.2) -> Trial:
    """Two updates of a small model on copying, in float64 and with the plain rules where the student has none."""
    sizes = {"vocab_size": 14, "n_layers": 1, "d_model": 32, "d_ff": 64, "n_heads": 4, "dtype": "float64"}
    drop = {"p_drop": p_drop, "p_drop_attention": p_drop, "p_drop_ffn": p_drop}
    model = Transformer(ModelConfig(**sizes, **drop), seed=1, kernel_mode="simple")
    training = TrainingConfig(warmup_steps=10)
    adam, rng, losses, seconds = Adam(model.parameters), np.random.default_rng(1), [], []
    for update in (1, 2):
        pairs = [rng.integers(4, 14, rng.integers(1, 12)).tolist() for _ in range(16)]
        began = time.process_time()
        result = step.train_step(model, adam, [pad_batch(pairs, pairs)], update=update, config=training)
        seconds.append(time.process_time() - began)
        losses += [result.loss, result.nll]
    return Trial(np.concatenate([losses, model.parameters.data, adam.m, adam.v]), min(seconds))

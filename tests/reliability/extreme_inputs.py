"""The inputs of `extremes`: the axes and options of every rule, random sizes, extreme values.

A new rule needs one line in SPECS.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from minitransformer.config import PAD

SIZES = (0, 1, 2, 3, 5, 9)
LIKELY = (0.04, 0.2, 0.16, 0.2, 0.2, 0.2)
BROKEN = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40)
HUGE = (1e30, -1e30, 0.0, -0.0, 1e-40, 1.0)

Option = Callable[[np.random.Generator, dict[str, int]], Any]


@dataclass(frozen=True)
class Spec:
    """``inputs``: the axes of each input, ``N`` those of rows that must not influence each other.

    needs: axes that are refused if they are empty   never_empty: axes of parameters, which no model has empty
    rows_out: the outputs have the same rows
    """

    inputs: str
    needs: str = ""
    never_empty: str = ""
    rows_out: bool = True
    options: dict[str, Option] = field(default_factory=dict)

    def axes(self) -> list[list[str]]:
        return [each.split() for each in self.inputs.split(",")]

    def has_rows(self, i: int) -> bool:
        return self.axes()[i][:1] == ["N"]


def always(value: Any) -> Option:
    return lambda rng, sizes: value


def booleans(axes: str, share: float = 0.6) -> Option:
    """Of that shape; some rows are False everywhere."""
    return lambda rng, sizes: _some_rows_empty(rng, rng.random([sizes[axis] for axis in axes.split()]) < share)


def maybe(option: Option) -> Option:
    """None half of the time."""
    return lambda rng, sizes: option(rng, sizes) if rng.random() < 0.5 else None


def ids(axes: str, below: str) -> Option:
    return lambda rng, sizes: rng.integers(0, max(1, sizes[below]), [sizes[axis] for axis in axes.split()])


def targets(rng: np.random.Generator, sizes: dict[str, int]) -> np.ndarray:
    return ids("N", "V")(rng, sizes)


def smoothing(rng: np.random.Generator, sizes: dict[str, int]) -> float:
    return float(rng.choice([0.0, 0.1, 0.9]))


def shape_of(axes: str) -> Option:
    return lambda rng, sizes: tuple(sizes[axis] for axis in axes.split())


def _some_rows_empty(rng: np.random.Generator, mask: np.ndarray) -> np.ndarray:
    return mask & (rng.random((*mask.shape[:-1], 1)) < 0.8)


ELEMENTWISE, PAIR, LAST = Spec("N D"), Spec("N D, N D"), {"axis": always(-1)}
LOSS = {"targets": targets, "label_smoothing": smoothing}
NORM = {"eps": always(1e-6)}
SPECS = {
    "add": PAIR,
    "subtract": Spec("N D, D"),
    "multiply": PAIR,
    "divide": PAIR,
    "negative": ELEMENTWISE,
    "power": Spec("N D", options={"exponent": lambda rng, sizes: float(rng.choice([-2.0, -1.0, 0.0, 0.5, 1.0, 3.0]))}),
    "exp": ELEMENTWISE,
    "log": ELEMENTWISE,
    "relu": ELEMENTWISE,
    "tanh": ELEMENTWISE,
    "erf": ELEMENTWISE,
    "sum": Spec("N D", options=LAST),
    "mean": Spec("N D", options=LAST),
    "max": Spec("N D", needs="D", options=LAST),
    "reshape": Spec("N T D", options={"shape": shape_of("N D T")}),
    "transpose": Spec("N T D", options={"axes": always((0, 2, 1))}),
    "broadcast": Spec("N 1 D", options={"shape": shape_of("N T D")}),
    "getitem": Spec("N D", options={"index": always((slice(None), slice(None, None, -2)))}),
    "concatenate": Spec("N D, N T"),
    "split_heads": Spec("N T P", options={"n_heads": always(2), "widths": lambda rng, sizes: (sizes["K"], sizes["D"])}),
    "merge_heads": Spec("N H T D"),
    "matmul": Spec("N T K, N K D"),
    "linear": Spec("N K, K D, D", never_empty="KD"),
    "softmax": Spec("N T S", needs="S", options={"mask": maybe(booleans("N T S"))}),
    "log_softmax": Spec("N S", needs="S"),
    "attention": Spec(
        "N H T K, N H S K, N H S D",
        needs="S K",
        options={"mask": maybe(booleans("N 1 T S")), "keep": maybe(booleans("N H T S")), "p_drop": always(0.3)},
    ),
    "additive_attention": Spec("N T K, N S K, N S D, K", never_empty="S K", options={"mask": maybe(booleans("N T S"))}),
    "gru_cell": Spec("N K, N D, K G, D G, G, G", never_empty="K D"),
    "gru": Spec(
        "N T K, N D, K G, D G, G, G",
        never_empty="T K D",
        options={"mask": maybe(booleans("N T")), "reverse": lambda rng, sizes: bool(rng.random() < 0.5)},
    ),
    "layer_norm": Spec("N D, D, D", needs="D", options=NORM),
    "feed_forward": Spec(
        "N D, D K, K, K D, D", never_empty="DK", options={"keep": maybe(booleans("N K")), "p_drop": always(0.3)}
    ),
    "embedding": Spec("V D", never_empty="V", options={"ids": ids("N T", "V"), "scale": always(2.0)}, rows_out=False),
    "positioned_embedding": Spec("V D, T D", never_empty="V", options={"ids": ids("N T", "V")}, rows_out=False),
    "dropout": Spec("N D", options={"keep": maybe(booleans("N D")), "p_drop": always(0.3)}),
    "residual_dropout": Spec("N D, N D", options={"keep": maybe(booleans("N D")), "p_drop": always(0.3)}),
    "residual_dropout_norm": Spec(
        "N D, N D, D, D", needs="D", options={"keep": maybe(booleans("N D")), "p_drop": always(0.3)} | NORM
    ),
    "cross_entropy": Spec("N V", needs="V", options=LOSS, rows_out=False),
    "projection_loss": Spec("N D, V D", needs="V", never_empty="D", options=LOSS, rows_out=False),
}


@dataclass(frozen=True)
class Case:
    """One call of a rule."""

    name: str
    dtype: str
    sizes: dict[str, int]
    inputs: tuple[np.ndarray, ...]
    options: dict[str, Any]
    seed: int

    @classmethod
    def draw(cls, name: str, rng: np.random.Generator) -> "Case":
        spec, dtype = SPECS[name], str(rng.choice(["float32", "float64"]))
        sizes = dict(zip("NTSVKDH", rng.choice(SIZES, 7, p=LIKELY).tolist(), strict=True))
        sizes |= {axis: max(1, sizes[axis]) for axis in spec.never_empty if axis in sizes}
        sizes |= {"1": 1, "P": 2 * (sizes["K"] + sizes["D"]), "G": 3 * sizes["D"]}
        values = HUGE if rng.random() < 0.4 else BROKEN
        inputs = [rng.standard_normal([sizes[axis] for axis in axes]).astype(dtype) for axes in spec.axes()]
        for i in rng.permutation(len(inputs))[: rng.integers(0, len(inputs) + 1)]:
            inputs[i] = extreme(rng, inputs[i], values)
        options = {option: value(rng, sizes) for option, value in spec.options.items()}
        return cls(name, dtype, sizes, tuple(inputs), options, int(rng.integers(1 << 30)))

    def cotangent(self, i: int, y: np.ndarray) -> np.ndarray:
        """An ordinary gradient of output ``i``, of which a row depends on its number alone."""
        return np.cos(self.seed % 1000 + i + np.arange(y.size)).reshape(y.shape).astype(y.dtype)

    def words(self) -> str:
        shapes = " ".join(str(x.shape).replace(" ", "") for x in self.inputs)
        return f"{self.dtype} {shapes}"


def extreme(rng: np.random.Generator, x: np.ndarray, values: tuple[float, ...]) -> np.ndarray:
    """A copy in which one, some or all entries are drawn from ``values``."""
    share = rng.choice([1 / max(1, x.size), 0.2, 1.0], p=[0.6, 0.3, 0.1])
    return np.where(rng.random(x.shape) < share, np.array(values)[rng.integers(0, len(values), x.shape)], x).astype(
        x.dtype
    )


def ordinary(case: Case) -> Case:
    """The same case with ordinary inputs."""
    rng = np.random.default_rng(case.seed)
    return replace(case, inputs=tuple(rng.standard_normal(x.shape).astype(x.dtype) for x in case.inputs))


def with_inputs(case: Case, changes: dict[int, np.ndarray]) -> Case:
    return replace(case, inputs=tuple(changes.get(i, x) for i, x in enumerate(case.inputs)))


def other_row(case: Case) -> tuple[Case, Case, int] | None:
    """Two cases that differ in one row, and which; None if there are no two rows."""
    spec, rng = SPECS[case.name], np.random.default_rng(case.seed)
    rows = [i for i in range(len(case.inputs)) if spec.has_rows(i)]
    if not rows or case.sizes["N"] < 2:
        return None
    case, row, changes = ordinary(case), int(rng.integers(case.sizes["N"])), {}
    for i in rows:
        changes[i] = case.inputs[i].copy()
        changes[i][row] = extreme(rng, changes[i][row], BROKEN + HUGE)
    return case, with_inputs(case, changes), row


def hidden_changes(case: Case) -> Iterator[tuple[Case, Case, list[tuple[int, int, Any]]]]:
    """Pairs of cases that differ in what is hidden alone; (0 for outputs or 1 for gradients, number, index) of each
    result that must not differ."""
    rng, everything = np.random.default_rng(case.seed), ...
    usual = ordinary(case)
    if case.name == "softmax" and case.options["mask"] is not None:
        mask, (x,) = case.options["mask"], usual.inputs
        worst = np.where(mask, x, extreme(rng, np.full_like(x, np.nan), BROKEN + HUGE))
        yield usual, with_inputs(usual, {0: worst}), [(0, 0, everything), (1, 0, everything)]
    elif case.name == "attention" and case.options["mask"] is not None:
        usual.options["mask"][..., 0] = False  # the first key is hidden from all queries
        q, k, v = (x.copy() for x in usual.inputs)
        k[..., 0, :] = extreme(rng, np.full_like(k[..., 0, :], np.nan), BROKEN + HUGE)
        yield usual, with_inputs(usual, {1: k}), [(0, 0, everything)]
        for x in (k, v):  # 0 * NaN is NaN: gradients, and values, must be finite
            x[..., 0, :] = extreme(rng, np.full_like(x[..., 0, :], 1e30), HUGE)
        yield usual, with_inputs(usual, {1: k, 2: v}), [(0, 0, everything), *((1, i, everything) for i in range(3))]
    elif case.name in ("cross_entropy", "projection_loss"):
        padding = case.options["targets"] == PAD
        x = usual.inputs[0].copy()
        x[padding] = extreme(rng, np.full_like(x[padding], np.nan), BROKEN + HUGE)
        yield usual, with_inputs(usual, {0: x}), [(0, 0, everything), (0, 1, everything), (1, 0, everything)]

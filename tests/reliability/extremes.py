"""Extreme inputs to every rule, by the plain rules and the fast kernels, forward and backward, in both dtypes.

    python -m tests.reliability.extremes [--cases 100000] [--seed 1]

A case is a rule, sizes of its axes (0 and 1 among them) and inputs of which some values are NaN, infinite, 1e30, a
denormal or a zero of either sign. In every case must hold:

1. Nothing is raised but ShapeError, and that where an axis is empty that must not be (`Spec.needs`), and only there.
2. Outputs have the shapes and dtype of the plain rule's, gradients those of the inputs; empty in, empty out.
3. The kernel has NaN and infinity where the plain rule has them, and agrees with it elsewhere; of gradients, either may
   stand for the other. (0 * inf is NaN, inf times a small number is not: the order of the products decides.) Gradients
   are compared up to rounding relative to the product of the largest inputs, unless that overflows; outputs of
   attention only where the rounding of scores cannot decide the softmax.
4. Rows are independent: whatever one of them holds, the results of the others stay the same values.
5. What is masked or padding has no influence.
"""

import argparse
import math
import sys
import warnings
from collections import Counter

import numpy as np

from minitransformer import kernels
from minitransformer.autograd import Tensor, functions
from minitransformer.errors import ShapeError
from minitransformer.ops.registry import RULES
from tests.reliability.extreme_inputs import SPECS, Case, hidden_changes, other_row

CLOSE = {"float32": 2e-4, "float64": 1e-10}
WITH_KERNEL = {name for name, library in kernels.KERNELS if library == "numpy"}


def modes(case: Case) -> tuple[str, ...]:
    """Both modes if the rule has a fast kernel, which "fast" would otherwise not use."""
    return ("simple", "fast") if case.name in WITH_KERNEL else ("simple",)


def computed(case: Case, mode: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """(outputs, gradients of all inputs)"""
    tensors = [Tensor(x.copy(), requires_grad=True) for x in case.inputs]
    function = getattr(functions, case.name)
    with kernels.mode(mode):
        made = function(tensors, **case.options) if case.name == "concatenate" else function(*tensors, **case.options)
        outputs = made if isinstance(made, tuple) else (made,)
        grads_y = [case.cotangent(i, y.data) if y.requires_grad else None for i, y in enumerate(outputs)]
        grads = outputs[0].node.backward(grads_y)
    return [y.data for y in outputs], list(grads)


def agree(found: np.ndarray, wanted: np.ndarray, close: float, any_kind: bool = False, scale: float = 1.0) -> bool:
    """NaN and infinities in the same places (any_kind: either may stand for the other); other values differ by at most
    ``close`` times the largest, or times ``scale``."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return False
    is_finite = np.isfinite(wanted)
    if (np.isfinite(found) != is_finite).any():
        return False
    if not (any_kind or np.array_equal(found[~is_finite], wanted[~is_finite], equal_nan=True)):
        return False
    found, wanted = found[is_finite], wanted[is_finite]
    return bool((np.abs(found - wanted) <= close * np.abs(wanted).max(initial=scale)).all())


def faults(case: Case) -> list[str]:
    """Descriptions of the requirements that do not hold."""
    spec, results = SPECS[case.name], {}
    is_refused = any(case.sizes[axis] == 0 for axis in spec.needs.split())
    for mode in modes(case):
        try:
            results[mode] = computed(case, mode)
        except ShapeError as error:
            if not is_refused:
                return [f"{mode}: refused: {error}"]
        except Exception as error:  # noqa: BLE001 - any exception is a fault
            return [f"{mode}: {type(error).__name__}: {error}"]
        else:
            if is_refused and results[mode][0][0].size:
                return [f"{mode}: an empty axis is not refused"]
    if is_refused:
        return []
    return [*_kernel_faults(case, results), *_row_faults(case), *_hidden_faults(case)]


def _kernel_faults(case: Case, results: dict) -> list[str]:
    found = []
    for mode, (outputs, grads) in results.items():
        if any(y.dtype != case.dtype for y in outputs):
            found.append(f"{mode}: another dtype")
        if [(grad.shape, grad.dtype) for grad in grads] != [(x.shape, x.dtype) for x in case.inputs]:
            found.append(f"{mode}: gradients have not the shapes and dtypes of the inputs")
    if "fast" not in results:
        return found
    scale = product_of_largest(case)  # rounding errors are multiplied by it
    for part, wanted, given in zip(("output", "gradient"), results["simple"], results["fast"], strict=True):
        options = {"any_kind": True, "scale": scale} if part == "gradient" else {}
        close = math.inf if part == "output" and rounding_decides(case) else CLOSE[case.dtype]
        if part == "gradient" and scale > np.finfo(case.dtype).max:
            continue
        for i, (one, other) in enumerate(zip(wanted, given, strict=True)):
            if not agree(other, one, close, **options):
                found.append(f"{part} {i} of the kernel differs: {other!r} instead of {one!r}")
    return found


def largest(x: np.ndarray) -> float:
    """The largest finite absolute value, at least 1."""
    return float(np.abs(x[np.isfinite(x)]).max(initial=1.0))


def product_of_largest(case: Case) -> float:
    """A bound of the gradients."""
    return math.prod(map(largest, case.inputs))


def rounding_decides(case: Case) -> bool:
    """Whether scores q k^T are so large that their rounding errors, which depend on the order of the sum, change the
    softmax: terms of 1e60 and -1e60 may give 0 or 1e44."""
    if case.name != "attention":
        return False
    q, k, _ = case.inputs
    return np.finfo(case.dtype).eps * q.shape[-1] * largest(q) * largest(k) > CLOSE[case.dtype]


def _row_faults(case: Case) -> list[str]:
    spec, found = SPECS[case.name], []
    changed = other_row(case)
    if changed is None:
        return []
    case, changed, row = changed
    for mode in modes(case):
        before, after = computed(case, mode), computed(changed, mode)
        pairs = list(zip(before[0], after[0], strict=True)) if spec.rows_out else []
        pairs += [pair for i, pair in enumerate(zip(before[1], after[1], strict=True)) if spec.has_rows(i)]
        for one, other in pairs:
            if not np.array_equal(np.delete(one, row, axis=0), np.delete(other, row, axis=0), equal_nan=True):
                found.append(f"{mode}: row {row} has changed another")
    return found


def _hidden_faults(case: Case) -> list[str]:
    found = []
    for one, other, parts in hidden_changes(case):
        for mode in modes(case):
            before, after = computed(one, mode), computed(other, mode)
            for part, i, where in parts:
                a, b = before[part][i], after[part][i]
                if not (agree(b[where], a[where], CLOSE[case.dtype]) and np.isfinite(b[where]).all()):
                    found.append(f"{mode}: what is hidden has changed {('output', 'gradient')[part]} {i}")
    return found


def run(numbers: range, seed: int) -> tuple[Counter, list[str]]:
    """Run the cases with these numbers; returns the number of cases of each rule, and the faults."""
    tried, found, names = Counter(), [], list(RULES)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the mean of an empty axis
        for number in numbers:
            name = names[number % len(names)]
            case = Case.draw(name, np.random.default_rng((seed, number)))
            tried[name] += 1
            found += [f"{name}, case {number}, {case.words()}: {fault}"[:400] for fault in faults(case)]
    return tried, found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    tried, found = run(range(arguments.cases), arguments.seed)
    print(*found[:40], sep="\n")
    print(f"{sum(tried.values())} cases of {len(tried)} rules, {len(found)} faults")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())

"""``show`` and ``check_gradient``, which a student calls."""

import re
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from course import limits, show
from course.gradients import check_gradient
from course.results import measured, result_lines
from examples.paper.seeds import standard_error, values_of
from minitransformer.ops.attention import attention_forward
from minitransformer.ops.layer_norm import layer_norm, layer_norm_backward, layer_norm_forward
from minitransformer.ops.softmax import softmax_backward, softmax_forward


def test_show_prints_file_line_and_source(capsys):
    show(attention_forward)
    first, _, source = capsys.readouterr().out.partition("\n\n")
    assert re.fullmatch(r"minitransformer/ops/attention\.py, line \d+", first)
    assert source.startswith("def attention_forward(") and "weights @ v" in source


@pytest.mark.parametrize("thing", [3, None, np.exp, np.zeros(3), layer_norm, eval("lambda: 0")])
def test_show_says_what_has_no_source(thing, capsys):
    show(thing)
    assert re.fullmatch(r"`show` prints functions .*; .* has no such source\.\n", capsys.readouterr().out)


def changes_in_place(grad_y, saved):
    grad_y *= 2.0
    return (grad_y,)


def runs_for_ever(grad_y, saved):
    while True:
        pass


ONE_DOUBLED = np.array([[1.0, 1.0, 1.0], [1.0, 2.0, 1.0]])
BAD_BACKWARD = {
    "None": (
        lambda grad_y, saved: None,
        "WRONG. The backward must return a tuple of 1, a gradient per input; got None.",
    ),
    "no tuple": (lambda grad_y, saved: grad_y, "got an array of shape (2, 3)."),
    "too many": (lambda grad_y, saved: (grad_y, grad_y), "got a tuple of 2."),
    "shape": (lambda grad_y, saved: (grad_y[:1],), "must have the shape (2, 3), got (1, 3)."),
    "NaN": (lambda grad_y, saved: (grad_y * np.nan,), "relative error nan: WRONG in input 0"),
    "inf": (lambda grad_y, saved: (grad_y * np.inf,), "WRONG in input 0"),
    "raises": (lambda grad_y, saved: saved[3], "WRONG. IndexError: tuple index out of range, raised in <lambda>"),
    "one number": (lambda grad_y, saved: (softmax_backward(grad_y, saved)[0] * ONE_DOUBLED,), "WRONG in input 0"),
    "in place": (changes_in_place, "read-only, raised in changes_in_place, `grad_y *= 2.0`."),
    "exit": (lambda grad_y, saved: sys.exit(), "WRONG. SystemExit, raised in <lambda>"),
    "unfilled": (lambda grad_y, saved: ..., "<lambda>: not yet"),
    "loop": (runs_for_ever, "WRONG. It had not returned after 0.3 s."),
    "not a function": (3, "WRONG. TypeError: 'int' object is not callable"),
}


@pytest.mark.parametrize(("backward", "words"), BAD_BACKWARD.values(), ids=BAD_BACKWARD)
def test_check_gradient_answers_a_bad_backward_in_one_line(backward, words, capsys, monkeypatch):
    monkeypatch.setattr("course.gradients.SECONDS", 0.3)
    x = np.arange(6.0).reshape(2, 3)
    check_gradient((softmax_forward, backward), x)
    out = capsys.readouterr().out
    assert words in out and out.count("\n") == 1
    assert np.array_equal(x, np.arange(6.0).reshape(2, 3))


def test_check_gradient_answers_a_wrong_call_in_one_line(capsys):
    check_gradient(softmax_forward, np.zeros(3))
    check_gradient((softmax_forward, softmax_backward))
    check_gradient((softmax_forward, softmax_backward), "text")
    first, second, third = capsys.readouterr().out.splitlines()
    assert "a pair (forward, backward)" in first and "missing 1 required" in second and "'text'" in third


def test_check_gradient_names_the_wrong_input(rng, capsys):
    x, gamma, beta = rng.standard_normal((3, 4)), rng.standard_normal(4), rng.standard_normal(4)
    check_gradient(layer_norm, x, gamma, beta)
    assert capsys.readouterr().out.endswith(": right\n")

    def forgets_beta(grad_y, saved):
        grad_x, grad_gamma, grad_beta = layer_norm_backward(grad_y, saved)
        return grad_x, grad_gamma, 0.5 * grad_beta

    check_gradient((layer_norm_forward, forgets_beta), x, gamma, beta)
    out = capsys.readouterr().out
    assert out.startswith("forgets_beta:") and "WRONG in input 2" in out and out.count("\n") == 1


def test_a_stop_that_comes_when_the_call_is_over_says_nothing(rng, monkeypatch, capsys):
    def stopped(trace):
        raise limits._TimeIsUp

    monkeypatch.setattr(limits, "sys", SimpleNamespace(settrace=stopped))
    monkeypatch.setattr(threading, "excepthook", lambda told: print(told.exc_type))
    check_gradient(layer_norm, rng.standard_normal((3, 5)), rng.standard_normal(5), rng.standard_normal(5))
    assert re.fullmatch("layer_norm: .*: right\n", capsys.readouterr().out)


def test_the_errors_of_what_was_measured_are_standard_errors_over_seeds():
    perplexities = values_of(result_lines("table3", "base"), "ppl")
    assert measured("table3", "base", "ppl") == pytest.approx((perplexities.mean(), standard_error(perplexities)))

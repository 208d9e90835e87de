"""What ``check`` says of a wrong result: which parts are right, where it differs, and never more than is true."""

import linecache

import numpy as np
import pytest

from course.checking import examine
from course.compare import same
from course.differences import in_other_order
from course.exercise import solution_of


def test_the_students_own_exception_is_shown_beside_ragged_lists():
    def of_pairs(vector, shapes, pairs, eps, n_layers, n_heads):
        raise ValueError("mine")

    text = examine("my_transformer.gradient_of", of_pairs).text
    assert 'raised ValueError: mine, in its line 2, `raise ValueError("mine")`' in text
    assert "shapes = a dict of 61, " in text and "pairs = [(" in text and len(text) < 600


def test_an_exception_in_a_helper_names_the_helper_and_counts_no_lines_of_the_function():
    before = "def helper(z):\n    return z + missing\n\n\ndef answer(z):\n    return helper(z)\n"
    after = "def answer(z):\n    return helper(z)\n\n\ndef helper(z):\n    return z + missing\n"
    for i, text in enumerate((before, after)):
        names, file = {}, f"<cell {i}>"
        linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
        exec(compile(text, file, "exec"), names)
        message = examine("03_softmax.softmax", names["answer"]).text
        assert "is not defined, in helper, `return z + missing`." in message and "its line" not in message


def test_arguments_after_an_exception_take_three_lines():
    text = examine("05_heads.multi_head", lambda x, w_q, w_k, w_v, w_o, n_heads: x[99]).text
    _, _, arguments = text.partition("It was called with ")
    assert "w_o = an array of shape (" in arguments and len(arguments) < 3 * 110


def test_functions_without_a_name_are_called_functions():
    assert "<<" not in examine("09_transformer.decoder_layer", lambda *inputs: inputs[0]).text


@pytest.mark.parametrize(
    "name", ["09_transformer.decoder_layer", "09_transformer.cross_attention_backward", "my_transformer.attention"]
)
def test_only_what_is_right_with_as_many_sources_is_said_to_be(name):
    def noise(*inputs):
        draws = np.random.default_rng(0)
        answer = solution_of(name)(*inputs)
        if hasattr(answer, "data") and hasattr(answer, "parents"):
            answer.data = draws.standard_normal(answer.data.shape)
            return answer
        if isinstance(answer, tuple):
            return tuple(draws.standard_normal(part.shape) for part in answer)
        return draws.standard_normal(answer.shape)

    result = examine(name, noise)
    assert result.verdict == "wrong" and "With as many" not in result.text


def test_each_part_is_answered_by_itself():
    q, k = np.zeros((2, 2)), np.ones((2, 2))

    def changed(change):
        return lambda *inputs: change(*solution_of("04_attention.backward")(*inputs))

    one = examine("04_attention.backward", changed(lambda q, k, v: (q, 4 * k, v))).text
    assert one.startswith("grad_q and grad_v are right; grad_k is not. grad_k: Every number is 4 times the right one.")
    both = examine("04_attention.backward", changed(lambda q, k, v: (q + 1, k - 1, v))).text
    assert both.startswith("grad_v is right; grad_q and grad_k are not. grad_q: Expected [[") and "grad_k: Exp" in both
    assert examine("04_attention.backward", changed(lambda q, k, v: (q + 1, k - 1, v + 1))).text.startswith("None of")
    text = examine("04_attention.backward", changed(lambda q, k, v: (v, q, k))).text
    assert text == "The parts are right, but the order is grad_q, grad_k, grad_v."
    assert in_other_order([(q, q, k)], [(q, k, k + 1)], 1e-6, "qkv") is None


@pytest.mark.parametrize("name", ["13_bleu.clipped_counts", "bug_zoo.schedule", "bug_zoo.shifted_target"])
def test_parts_are_called_by_their_names_and_not_counted(name):
    def second_part_is_wrong(*inputs):
        first, second = solution_of(name)(*inputs)
        return first, second + 99

    text = examine(name, second_part_is_wrong).text
    assert " right; " in text and "Part " not in text


def test_a_wrong_sign_of_a_number_is_named():
    loss = solution_of("03_softmax.smoothed_loss")
    assert examine("03_softmax.smoothed_loss", lambda *inputs: -loss(*inputs)).text.startswith("The sign is wrong.")


@pytest.mark.parametrize("change", [np.float16, lambda y: 1.0001 * y])
def test_what_is_nearly_right_is_said_to_be(change):
    text = examine("03_softmax.softmax", lambda z: change(solution_of("03_softmax.softmax")(z))).text
    assert text.startswith("It is right up to a thousandth: is something rounded")
    assert "thousandth" not in examine("18_half_precision.loss_scale", lambda grads: 1e-9).text


def test_small_numbers_are_not_taken_for_zeros():
    first = np.array([512**-0.5 * 4000**-1.5])  # eq. 3 of the base model at update 1: 1.7e-7
    assert same(first, first * (1 + 1e-7), 1e-6)
    assert not same(first, np.zeros(1), 1e-6) and not same(first, 2 * first, 1e-6)


def test_small_numbers_are_not_shown_as_zeros():
    scale = solution_of("18_half_precision.loss_scale")
    text = examine("18_half_precision.loss_scale", lambda grads: scale(grads) * (grads.max() > 1e-7)).text
    assert "grads = [3.e-09, 2.e-08]" in text
    assert "got 0.000691068" in examine("11_training.schedule", lambda *inputs: np.float64(1 / 1447.0355)).text


def test_a_tuple_of_one_array_is_called_a_tuple():
    """Lesson 2 asks for one where there is one gradient; where an array is asked for, it has no axis too many."""
    backward = solution_of("08_positions.rotary_backward")
    assert "got a tuple of 1" in examine("08_positions.rotary_backward", lambda *inputs: (backward(*inputs),)).text


def test_a_large_array_is_answered_with_its_first_wrong_number():
    def one_wrong(n_positions, d_model):
        waves = solution_of("08_positions.sinusoids")(n_positions, d_model)
        return np.where((np.arange(waves.size) == 17).reshape(waves.shape), -5.0, waves)

    text = examine("08_positions.sinusoids", one_wrong).text
    assert text.startswith("The first difference is at [2, 5]: expected 0.999991, got -5. It was called with")

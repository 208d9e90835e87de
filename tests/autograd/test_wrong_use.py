"""Wrong use of the Python interface: what NumPy would silently accept is refused, with the name of the op."""

import math

import numpy as np
import pytest
from small_models import VOCAB_SIZE, random_batch, small_config, small_model
from tiny_run import tiny_trainer

from minitransformer import kernels
from minitransformer.autograd import Tensor, functions
from minitransformer.config import Config, TrainingConfig
from minitransformer.errors import AutogradError, ConfigError, DataError, ShapeError
from minitransformer.models import build_model, register_model
from minitransformer.optim import Adam
from minitransformer.text import Batch, pad_batch
from minitransformer.training import Corpus, evaluate_loss, train_step


def ones(*shape) -> Tensor:
    return Tensor(np.ones(shape))


TARGETS = np.array([1, 2, 3])
MASK = np.ones((3, 4), bool)
WRONG = {
    "sum: axis 5 is out of bounds": lambda: ones(2, 3).sum(axis=5),
    r"add: .*\(2, 3\), \(4,\)": lambda: ones(2, 3) + ones(4),
    r"reshape: .*\(2, 3\)": lambda: ones(2, 3).reshape(4, 2),
    "embedding: ids must be in 0..4, got -1": lambda: functions.embedding(ones(5, 2), ids=np.array([-1])),
    "embedding: ids must be in 0..4, got -1..-1": lambda: functions.embedding(ones(5, 2), ids=np.int64(-1)),
    "embedding: ids must be in 0..4, got 0..5": lambda: functions.embedding(ones(5, 2), ids=np.array([0, 5])),
    "embedding: ids must be integers, got bool": lambda: functions.embedding(ones(2, 2), ids=np.array([True, False])),
    "targets must be in 0..4, got -1": lambda: functions.cross_entropy(ones(3, 5), targets=TARGETS - 2),
    r"rows and targets must have the same shape, got \(2, 3\) and \(2,\)": lambda: functions.cross_entropy(
        ones(2, 3, 5), targets=TARGETS[:2]
    ),
    "loss: rows and targets": lambda: functions.projection_loss(ones(2, 4), ones(5, 4), targets=TARGETS),
    "label_smoothing must be at least 0 and below 1, got 2": lambda: functions.cross_entropy(
        ones(3, 5), targets=TARGETS, label_smoothing=2.0
    ),
    r"same shape, got \(1, 4\) and \(3, 4\)": lambda: functions.residual_dropout_norm(
        ones(1, 4), ones(3, 4), ones(4), ones(4)
    ),
    "label_smoothing must be at least 0 and below 1, got -0.5": lambda: functions.cross_entropy(
        ones(3, 5), targets=TARGETS, label_smoothing=-0.5
    ),
    "positioned_embedding: ids must be in 0..4, got 5..5": lambda: functions.positioned_embedding(
        ones(5, 2), ones(1, 2), ids=np.array([[5]])
    ),
    r"residual_dropout: x and sublayer .* got \(3, 4\) and \(1, 4\)": lambda: functions.residual_dropout(
        ones(3, 4), ones(1, 4)
    ),
    r"rows and positions must have the same shape, got \(3, 2\) and \(4, 2\)": lambda: functions.positioned_embedding(
        ones(5, 2), ones(4, 2), ids=np.ones((2, 3), int)
    ),
    r"getitem: index 5 is out of bounds .* \(2, 3\)": lambda: ones(2, 3)[5],
    "x and keep must have the same shape": lambda: functions.dropout(ones(1, 4), keep=MASK, p_drop=0.5),
    "p_drop must be at least 0 and below 1, got 1.0": lambda: functions.dropout(ones(3, 4), keep=MASK, p_drop=1.0),
    "residual_dropout: p_drop must be at least 0 and below 1, got 2": lambda: functions.residual_dropout(
        ones(3, 4), ones(3, 4), keep=MASK, p_drop=2.0
    ),
    "feed_forward: p_drop must be at least 0 and below 1, got 1.5": lambda: functions.feed_forward(
        ones(3, 2), ones(2, 4), ones(4), ones(4, 2), ones(2), keep=MASK, p_drop=1.5
    ),
    "split_heads: .* got 7": lambda: functions.split_heads(ones(1, 2, 7), n_heads=2, widths=(4,)),
    "softmax: mask must be boolean": lambda: functions.softmax(ones(3, 3), mask=np.zeros((3, 3))),
    "softmax: mask must be boolean, .* got a list": lambda: functions.softmax(ones(1, 1), mask=[[True]]),
    "embedding: ids must be integers, got a list": lambda: functions.embedding(ones(5, 2), ids=[1]),
    "cross_entropy: targets must be integers, got a list": lambda: functions.cross_entropy(ones(1, 5), targets=[1]),
    "attention: mask must be boolean": lambda: functions.attention(*[ones(3, 3)] * 3, mask=np.zeros((3, 3))),
    "additive_attention: mask must be boolean": lambda: functions.additive_attention(
        *[ones(3, 3)] * 3, ones(3), mask=np.zeros((3, 3))
    ),
    "gru: mask must be boolean": lambda: functions.gru(
        ones(1, 3, 2), ones(1, 4), ones(2, 12), ones(4, 12), ones(12), ones(12), mask=np.array([[7, 9, 0]])
    ),
    r"matmul: .* at least two axes, got shapes \(3, 4\) and \(4,\)": lambda: ones(3, 4) @ ones(4),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_use_of_an_op_is_refused_by_name(message):
    with pytest.raises(ShapeError, match=message):
        WRONG[message]()


WRONG_KINDS = {
    r"softmax: input 0 must be a Tensor, got ndarray of shape \(3,\)": lambda: functions.softmax(np.ones(3)),
    "linear: input 1 must be a Tensor, got None": lambda: functions.linear(ones(3, 4), None, ones(4)),
    "getitem: index must be an array, got a Tensor": lambda: ones(3)[Tensor(TARGETS)],
    "embedding: ids must be an array, got a Tensor": lambda: functions.embedding(ones(5, 2), ids=Tensor(TARGETS)),
    "entropy: targets must be an array, got": lambda: functions.cross_entropy(ones(3, 5), targets=Tensor(TARGETS)),
    "attention: mask must be an array, got a Tensor": lambda: functions.attention(*[ones(4, 4)] * 3, mask=Tensor(MASK)),
    "Tensor: data must be an array or numbers, got a Tensor": lambda: Tensor(ones(2)),
}


@pytest.mark.parametrize("message", WRONG_KINDS)
def test_an_array_is_no_tensor_and_a_tensor_no_array(message):
    with pytest.raises(AutogradError, match=message):
        WRONG_KINDS[message]()


@pytest.mark.parametrize("dtype", [int, bool])
def test_a_float_added_to_an_integer_tensor_keeps_its_fraction(dtype):
    np.testing.assert_array_equal((Tensor(np.array([1, 0], dtype)) + 0.5).data, [1.5, 0.5])


def test_there_may_be_no_ids_at_all():
    assert functions.embedding(ones(5, 2), ids=np.zeros((0, 3), int)).shape == (0, 3, 2)


@pytest.mark.parametrize("shape", [(0, 4), (0, 3, 4), (3, 0, 4)], ids=str)
def test_of_no_vectors_there_are_no_norms(shape):
    assert functions.layer_norm(ones(*shape), ones(4), ones(4)).shape == shape
    assert functions.residual_dropout_norm(ones(*shape), ones(*shape), ones(4), ones(4)).shape == shape


@pytest.mark.parametrize("shape", [(0, 3, 4), (0, 2, 3, 4), (2, 0, 3, 4)], ids=str)
def test_attention_of_no_sentences_or_heads_is_empty(shape):
    assert functions.attention(*[ones(*shape)] * 3).shape == shape


@pytest.mark.parametrize("other", [None, "3", object()], ids=["None", "a string", "an object"])
def test_an_operand_that_is_not_a_number_is_refused(other):
    with pytest.raises(AutogradError, match="must be numbers"):
        ones(2) + other


@pytest.mark.parametrize("exponent", [ones(2), np.ones(2), "2", None], ids=["a tensor", "an array", "text", "None"])
def test_an_exponent_that_is_not_a_number_is_refused(exponent):
    with pytest.raises(AutogradError, match="power: exponent must be a number, got "):
        ones(2) ** exponent


def test_ids_may_be_lists_and_are_checked_like_arrays(rng):
    model = small_model(rng)
    np.testing.assert_array_equal(model([[5, 6]], [[1]]).data, model(np.array([[5, 6]]), np.array([[1]])).data)
    empty, three_axes = np.zeros((1, 0), int), np.full((1, 1, 1), 5)
    for ids in ([[5, -1]], [[5, VOCAB_SIZE]], [5, 6], [[5.0]], [[]], empty, three_axes, [[5, 6], [5]]):
        with pytest.raises(ShapeError, match="Transformer: src_ids must"):
            model(ids, [[1]])


WRONG_PAIRS = {
    "fractions": ([[4.7, 5.0]], [[5]]),
    "text": (["a cat"], ["eine Katze"]),
    "subwords": ([["a", "cat"]], [["eine", "Katze"]]),
    "ids of 40 bits": ([[4]], [[2**40]]),
    "a negative id": ([[4]], [[5, -1]]),
    "one side": [[4, 5]],
    "a sentence for a side": ([4, 5], [6, 7]),
    "three sides": ([[4]], [[5]], [[6]]),
    "more sources": ([[4], [5]], [[5]]),
    "nothing": ([], []),
}


@pytest.mark.parametrize("wrong", WRONG_PAIRS)
def test_a_corpus_of_anything_but_pairs_of_ids_is_refused(wrong):
    for corpus in (lambda pairs: Corpus(pairs), lambda pairs: Corpus(([[4]], [[5]]), pairs)):
        with pytest.raises(DataError, match="corpus: (train|valid) must "):
            corpus(WRONG_PAIRS[wrong])
    assert len(Corpus((np.array([[4, 5]]), [np.array([6, 7], np.uint16)])).train) == 2


def test_a_model_with_a_source_is_not_trained_on_a_one_sided_corpus(tmp_path):
    corpus = Corpus.one_sided([[4, 5, 6]] * 20)
    with pytest.raises(ConfigError, match="must be a language model for a one-sided corpus, got a Transformer"):
        tiny_trainer(tmp_path, corpus, updates=1)
    assert tiny_trainer(tmp_path, corpus, updates=1, model={"kind": "language_model"}).run().update == 1


@pytest.mark.parametrize("model", [None, "Transformer", dict, small_model])
def test_only_a_kind_of_model_is_registered(model):
    with pytest.raises(ConfigError, match="register_model: the model must be a subclass of Model, got "):
        register_model("another", model)


def test_sources_and_targets_must_be_equally_many(rng):
    model = small_model(rng)
    for sources, targets in ((2, 1), (1, 2)):
        with pytest.raises(ShapeError, match=f"one target per source, got {targets} and {sources}"):
            model([[5, 6]] * sources, [[1]] * targets)
    for tgt_out, shape in (([[5], [2]], "2, 1"), ([[5]], "1, 1")):
        with pytest.raises(ShapeError, match=rf"shape of tgt_in, \(1, 2\), got \({shape}\)"):
            model.loss(Batch(*map(np.array, ([[5, 6]], [[1, 5]], tgt_out, [0]))))


def test_a_step_needs_a_target_token(rng):
    model, batch = small_model(rng), random_batch(rng)
    with pytest.raises(DataError, match="train_step: .* at least one target token"):
        train_step(model, Adam(model.parameters), [], update=1, config=TrainingConfig())
    with pytest.raises(DataError, match="evaluate_loss: .* at least one target token"):
        evaluate_loss(model, [])
    assert evaluate_loss(model, [batch])[0] > 0


def test_kernels_are_simple_or_fast():
    with pytest.raises(ConfigError, match="execution.kernels must be one of simple, fast, got 'slow'"):
        build_model(small_config(), kernel_mode="slow")
    with pytest.raises(ConfigError, match="must be simple or fast, got 'slow'"), kernels.mode("slow"):
        pass


def test_an_id_beyond_the_vocabulary_is_refused_before_training(tmp_path):
    good, wrong = ([[4, 5]] * 20, [[5, 4]] * 20), ([[4]], [[20]])
    for name, corpus in (("train", Corpus(wrong)), ("valid", Corpus(good, wrong))):
        with pytest.raises(DataError, match=f"corpus: {name} must have ids below .* 20, got 20"):
            tiny_trainer(tmp_path, corpus, updates=1)


def test_a_section_of_a_config_is_no_table():
    with pytest.raises(ConfigError, match="config: model must be a ModelConfig, got {'n_layers': 1}"):
        Config(model={"n_layers": 1})


def test_a_rate_that_is_no_number_leaves_the_parameters_as_they_are(rng):
    model = small_model(rng)
    before = model.parameters.data.copy()
    for rate in (math.nan, math.inf):
        with pytest.raises(ConfigError, match="adam: learning_rate must be a finite number, got"):
            Adam(model.parameters).step(rate)
    np.testing.assert_array_equal(model.parameters.data, before)


NO_IDS = [[1.5], [4, 5.0], [2**31], ["4"], [None, 1], [True], np.array([4], object), np.array([4.5]), np.array([2**40])]


@pytest.mark.parametrize("ids", NO_IDS, ids=repr)
def test_a_batch_of_anything_but_ids_is_refused(ids):
    for pair in (([ids], [[4]]), ([[4]], [ids])):
        with pytest.raises(DataError, match="pad_rows: ids must be integers below 2\\^31, got "):
            pad_batch(*pair)


@pytest.mark.parametrize(
    ("name", "hint"), [("train", "dropout"), ("eval", "dropout"), ("state_dict", "parameters"), ("to", "load_model")]
)
def test_what_pytorch_has_is_answered_with_what_stands_in_its_place(name, hint):
    with pytest.raises(AttributeError, match=f"Transformer has no attribute '{name}'; .*{hint}"):
        getattr(build_model(small_config()), name)
    assert not hasattr(build_model(small_config()), "anything")

"""The wiring of the whole model: what may depend on what, what it can learn, and the refusal of bad input."""

import numpy as np
import pytest
import slow_versions
from small_models import VOCAB_SIZE, gradient, random_batch, random_sentence, small_config, small_model

from minitransformer.config import EOS, PAD, UNK, ModelConfig, TrainingConfig
from minitransformer.errors import ConfigError, ShapeError
from minitransformer.models import Transformer, build_model
from minitransformer.nn import DropoutMasks
from minitransformer.optim import Adam
from minitransformer.text import Batch, pad_batch
from minitransformer.training import evaluate_loss, train_step

VARIANTS = {
    "post-norm": {},
    "pre-norm": dict(norm="pre", attention_bias=True),
    "learned positions, untied": dict(positions="learned", tie_embeddings=False),
    "two vocabularies": dict(src_vocab_size=VOCAB_SIZE + 4, tie_embeddings=False),
    "simple kernels": dict(kernel_mode="simple"),
    "imported": dict(kind="imported", activation="gelu", output_bias=True, final_norm=True),
    "recurrent": dict(kind="recurrent", attention="additive", tie_embeddings=False),
}
every_variant = pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)


def another_token(token: int) -> int:
    return UNK + (token - UNK + 1) % (VOCAB_SIZE - UNK)


# What may depend on what


@every_variant
def test_every_source_token_changes_every_output(changes, rng):
    model, batch = small_model(rng, **changes), random_batch(rng, (5, 5), (4, 4))
    before = model(batch.src, batch.tgt_in).data
    for position in range(batch.src.shape[1]):
        src = batch.src.copy()
        src[0, position] = another_token(src[0, position])
        after = model(src, batch.tgt_in).data
        assert (np.abs(after[0] - before[0]).max(axis=-1) > 1e-6).all()
        np.testing.assert_array_equal(after[1], before[1])  # the neighbor in the batch is not touched


@every_variant
def test_a_target_token_changes_its_own_and_later_outputs_but_none_before(changes, rng):
    model, batch = small_model(rng, **changes), random_batch(rng, (5, 5), (5, 5))
    before = model(batch.src, batch.tgt_in).data
    for position in range(batch.tgt_in.shape[1]):
        tgt = batch.tgt_in.copy()
        tgt[0, position] = another_token(tgt[0, position])
        after = model(batch.src, tgt).data
        np.testing.assert_array_equal(after[0, :position], before[0, :position])
        assert (np.abs(after[0, position:] - before[0, position:]).max(axis=-1) > 1e-6).all()
        np.testing.assert_array_equal(after[1], before[1])


@every_variant
def test_padding_does_not_change_logits_loss_or_gradient(changes, rng, relative_error):
    model, batch = small_model(rng, **changes), random_batch(rng)
    padded = Batch(*(np.pad(ids, ((0, 0), (0, 3))) for ids in (batch.src, batch.tgt_in, batch.tgt_out)), batch.rows)
    real = batch.tgt_in != PAD
    before, after = model(batch.src, batch.tgt_in).data, model(padded.src, padded.tgt_in).data
    assert relative_error(after[:, : batch.tgt_in.shape[1]][real], before[real]) < 1e-13
    assert evaluate_loss(model, [padded]) == pytest.approx(evaluate_loss(model, [batch]), rel=1e-13)
    assert relative_error(gradient(model, padded), gradient(model, batch)) < 1e-12


@every_variant
def test_the_order_of_source_tokens_matters(changes, rng):
    """Without positions attention would see a bag of words."""
    model, batch = small_model(rng, **changes), pad_batch([[4, 5, 6, 7]], [[8, 9]])
    swapped = pad_batch([[4, 6, 5, 7]], [[8, 9]])
    assert np.abs(model(swapped.src, batch.tgt_in).data - model(batch.src, batch.tgt_in).data).max() > 1e-4


def test_a_source_of_padding_alone_gives_finite_results(rng):
    model, batch = small_model(rng), random_batch(rng)
    batch.src[1] = PAD
    assert np.isfinite(model(batch.src, batch.tgt_in).data).all()
    assert np.isfinite(gradient(model, batch)).all()


@every_variant
def test_loss_is_the_smoothed_cross_entropy_of_the_logits(changes, rng):
    model, batch = small_model(rng, label_smoothing=0.2, **changes), random_batch(rng)
    logits, targets = model(batch.src, batch.tgt_in).data.reshape(-1, VOCAB_SIZE), batch.tgt_out.reshape(-1)
    loss, nll = model.loss(batch)
    assert loss.item() == pytest.approx(slow_versions.smoothed_loss(logits, targets, 0.2, PAD), rel=1e-12)
    assert nll.item() == pytest.approx(slow_versions.smoothed_loss(logits, targets, 0.0, PAD), rel=1e-12)


# Dropout and training


def test_evaluation_is_the_same_every_time_and_dropout_is_not_active(rng):
    model, batch = small_model(rng, p_drop=0.5), random_batch(rng)
    without = small_model(rng, p_drop=0.0)
    without.parameters.data[:] = model.parameters.data
    np.testing.assert_array_equal(model(batch.src, batch.tgt_in).data, without(batch.src, batch.tgt_in).data)


@pytest.mark.parametrize("variant", ["post-norm", "imported"])
@pytest.mark.parametrize("kind", ["p_drop", "p_drop_attention", "p_drop_ffn"])
def test_each_kind_of_dropout_changes_the_loss_of_training(kind, variant, rng):
    off = dict(p_drop=0.0, p_drop_attention=0.0, p_drop_ffn=0.0)
    model, batch = small_model(rng, **VARIANTS[variant] | off | {kind: 0.3}), random_batch(rng)
    evaluated, trained = (model.loss(batch, dropout)[0].item() for dropout in (None, DropoutMasks(seed=1)))
    assert abs(evaluated - trained) > 1e-3
    assert trained == model.loss(batch, DropoutMasks(seed=1))[0].item()
    assert trained != model.loss(batch, DropoutMasks(seed=1, update=1))[0].item()


def test_one_batch_is_overfitted_to_the_entropy_of_its_smoothed_targets(rng):
    shape = dict(n_layers=1, d_model=32, d_ff=64, d_k=16, d_v=16, p_drop=0.0, label_smoothing=0.1)
    model = Transformer(small_config(**shape), seed=1)
    batch, config = random_batch(rng, (5, 3, 6, 4), (4, 6, 2, 5)), TrainingConfig(warmup_steps=50)
    optimizer = Adam(model.parameters)
    results = [train_step(model, optimizer, [batch], update=update, config=config) for update in range(1, 301)]
    floor = slow_versions.entropy_of_smoothed_target(VOCAB_SIZE, 0.1)
    assert results[0].loss > 2.0
    assert floor <= results[-1].loss < floor + 0.005
    assert min(result.loss for result in results) >= floor


def test_unequal_micro_batches_give_the_gradient_of_the_batch_they_make_up(rng, relative_error):
    src, tgt = [random_sentence(rng, n) for n in (5, 2, 4, 7)], [random_sentence(rng, n) for n in (3, 6, 1, 2)]
    updates, results = {}, {}
    for cuts in ([0, 4], [0, 1, 4], [0, 1, 2, 3, 4]):
        model = small_model(np.random.default_rng(2), p_drop=0.0)
        parts = [pad_batch(src[a:b], tgt[a:b]) for a, b in zip(cuts, cuts[1:], strict=False)]
        results[len(parts)] = train_step(model, Adam(model.parameters), parts, update=1, config=TrainingConfig())
        updates[len(parts)] = model.parameters.grad.copy()
    for parts in (2, 4):
        assert relative_error(updates[parts], updates[1]) < 1e-12
        assert results[parts].loss == pytest.approx(results[1].loss, rel=1e-12)
        assert results[parts].nll == pytest.approx(results[1].nll, rel=1e-12)
        assert results[parts].n_tgt_tokens == results[1].n_tgt_tokens == 16


# Bad input


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (np.array([[4, VOCAB_SIZE, EOS]]), "must hold ids in 0..12, got 2..13"),
        (np.array([[4, -1, EOS]]), "must hold ids in 0..12, got -1..4"),
        (np.array([4, 5, EOS]), r"must be a \(B, T\) array of integers"),
        (np.array([[4.0, 5.0]]), "must be a .* array of integers, got float64"),
    ],
    ids=["too large", "negative", "no batch axis", "not whole"],
)
def test_ids_outside_the_vocabulary_are_refused(ids, words, rng):
    model, good = small_model(rng), np.array([[1, 4, 5]])
    with pytest.raises(ShapeError, match=f"src_ids {words}"):
        model(ids, good)
    with pytest.raises(ShapeError, match=f"tgt_ids {words}"):
        model(good, ids)
    with pytest.raises(ShapeError, match=f"tgt_out {words}"):
        model.loss(Batch(good, good, ids, np.arange(1)))


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
def test_a_source_vocabulary_of_its_own_is_that_of_the_source_alone(kind):
    shape = dict(kind=kind, vocab_size=5, src_vocab_size=9, n_layers=1, d_model=4, tie_embeddings=False)
    model = build_model(ModelConfig(**shape, **({} if kind == "recurrent" else {"n_heads": 2})))
    sources, targets = np.array([[8, 4, EOS]]), np.array([[1, 4]])
    assert model(sources, targets).shape == (1, 2, 5)
    assert len(model.embedding.data) == 9 and len(model.projection.data) == 5
    with pytest.raises(ShapeError, match=r"src_ids must hold ids in 0\.\.8, got 2\.\.9"):
        model(sources + np.array([[1, 0, 0]]), targets)
    with pytest.raises(ShapeError, match=r"tgt_ids must hold ids in 0\.\.4, got 1\.\.8"):
        model(sources, targets + np.array([[0, 4]]))


def test_a_sentence_longer_than_learned_positions_is_refused(rng):
    model = small_model(rng, positions="learned", max_positions=4)
    fits, too_long = np.full((1, 4), 5), np.full((1, 5), 5)
    model(fits, fits)
    for src, tgt in ((too_long, fits), (fits, too_long)):
        with pytest.raises(ShapeError, match="at most max_positions = 4 tokens, got 5"):
            model(src, tgt)


def test_sinusoids_have_no_longest_sentence(rng):
    model = small_model(rng)
    for length in (3, 300, 1000):
        ids = np.full((1, length), 5)
        assert np.isfinite(model(ids, ids).data).all()


def test_a_model_without_vocabulary_is_refused():
    with pytest.raises(ConfigError, match="vocab_size must be at least 1"):
        Transformer(ModelConfig())

"""Label-smoothed cross-entropy of logits, and the plain one, from which perplexity is computed  [sec. 5.4]."""

from minitransformer.backend import Array, get_array_module
from minitransformer.config import PAD
from minitransformer.ops.rule import Rule
from minitransformer.ops.softmax import log_softmax_forward


def cross_entropy_forward(
    logits: Array, *, targets: Array, label_smoothing: float = 0.0, pad_id: int = PAD
) -> tuple[tuple[Array, Array], tuple]:
    """loss = sum_n sum_v q_nv * (-ln p_nv),   q = (1 - eps) onehot(target) + eps / V,   p = softmax(logits)
    nll = sum_n -ln p_n,target      [sec. 5.4; Szegedy et al. 2015]

    logits: (N, V)   targets: (N,), pad_id ignored, whatever its logits   loss, nll: (), nats summed
    ``nll`` is not differentiated: exp(nll / tokens) is the perplexity, whatever the smoothing.
    """
    xp = get_array_module(logits)
    log_p, _ = log_softmax_forward(logits)  # (N, V)
    real = targets != pad_id  # (N,)
    nll = -xp.where(real, log_p[xp.arange(targets.size), targets], 0.0).sum()
    loss = nll
    if label_smoothing > 0.0:  # with a logit of -inf, the product with 0 would be NaN
        uniform = -xp.where(real, log_p.mean(axis=-1), 0.0).sum()
        loss = (1.0 - label_smoothing) * nll + label_smoothing * uniform
    return (xp.asarray(loss), xp.asarray(nll)), (log_p, targets, real, label_smoothing)


def cross_entropy_backward(grad_loss: Array, grad_nll: None, saved: tuple) -> tuple[Array, ...]:
    """grad_logits = grad_loss * (p - q), zero at padding"""
    log_p, targets, real, label_smoothing = saved
    xp = get_array_module(log_p)
    grad_logits = xp.exp(log_p)  # p: (N, V)
    grad_logits -= label_smoothing / log_p.shape[-1]
    grad_logits[xp.arange(targets.size), targets] -= 1.0 - label_smoothing
    grad_logits *= grad_loss
    grad_logits[~real] = 0.0  # not a product: 0 * NaN is NaN
    return (grad_logits,)


cross_entropy = Rule("cross_entropy", cross_entropy_forward, cross_entropy_backward, n_non_differentiable=1)

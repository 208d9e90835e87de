"""Every rule by its name."""

from minitransformer.ops import reduce
from minitransformer.ops.attention import attention
from minitransformer.ops.cross_entropy import cross_entropy
from minitransformer.ops.dropout import dropout
from minitransformer.ops.elementwise import add, divide, exp, log, multiply, negative, power, relu, subtract
from minitransformer.ops.embedding import embedding, positioned_embedding
from minitransformer.ops.feed_forward import feed_forward
from minitransformer.ops.layer_norm import layer_norm
from minitransformer.ops.linear import linear, matmul
from minitransformer.ops.projection_loss import projection_loss
from minitransformer.ops.residual import residual_dropout, residual_dropout_norm
from minitransformer.ops.rule import Rule
from minitransformer.ops.shape import (
    broadcast,
    concatenate,
    getitem,
    merge_heads,
    reshape,
    split_heads,
    transpose,
)
from minitransformer.ops.softmax import log_softmax, softmax

_ALL = (
    attention,
    cross_entropy,
    dropout,
    add,
    divide,
    exp,
    log,
    multiply,
    negative,
    power,
    relu,
    subtract,
    embedding,
    positioned_embedding,
    feed_forward,
    layer_norm,
    linear,
    matmul,
    projection_loss,
    reduce.max,
    reduce.mean,
    reduce.sum,
    residual_dropout,
    residual_dropout_norm,
    broadcast,
    concatenate,
    getitem,
    merge_heads,
    reshape,
    split_heads,
    transpose,
    log_softmax,
    softmax,
)

RULES: dict[str, Rule] = {rule.name: rule for rule in _ALL}

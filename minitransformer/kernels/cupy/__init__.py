"""The fast kernels on CuPy arrays, with their CUDA sources beside them. CuPy is imported when one first runs."""

from minitransformer.kernels.cupy.adam import adam
from minitransformer.kernels.cupy.attention import attention
from minitransformer.kernels.cupy.embedding import embedding, positioned_embedding
from minitransformer.kernels.cupy.feed_forward import feed_forward
from minitransformer.kernels.cupy.linear import linear
from minitransformer.kernels.cupy.masks import draw_mask
from minitransformer.kernels.cupy.norm import layer_norm, residual_dropout_norm
from minitransformer.kernels.cupy.projection_loss import projection_loss
from minitransformer.kernels.cupy.residual import residual_dropout
from minitransformer.kernels.cupy.sums import sum_of_squares
from minitransformer.ops.rule import Rule

KERNELS: tuple[Rule, ...] = (
    attention,
    embedding,
    feed_forward,
    layer_norm,
    linear,
    positioned_embedding,
    projection_loss,
    residual_dropout,
    residual_dropout_norm,
)

FUNCTIONS = {"adam": adam, "sum_of_squares": sum_of_squares}
"""Functions that are not rules: the optimizer's passes over whole vectors."""

__all__ = ["FUNCTIONS", "KERNELS", "draw_mask"]

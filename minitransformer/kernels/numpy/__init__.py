"""The fast kernels on NumPy arrays. Importing them limits NumPy's BLAS to one thread (see `minitransformer.blas`)."""

from minitransformer.blas import product_threads
from minitransformer.kernels.numpy.attention import attention
from minitransformer.kernels.numpy.gemm import prepare_for_inference
from minitransformer.kernels.numpy.linear import feed_forward, linear
from minitransformer.kernels.numpy.masks import draw_mask
from minitransformer.kernels.numpy.projection import output_projection
from minitransformer.kernels.numpy.projection_loss import projection_loss
from minitransformer.kernels.numpy.residual import residual_dropout_norm
from minitransformer.ops.rule import Rule

KERNELS: tuple[Rule, ...] = (attention, feed_forward, linear, projection_loss, residual_dropout_norm)

FUNCTIONS = {"output_projection": output_projection}
"""Functions that are not rules: the logits of decoding."""

__all__ = ["FUNCTIONS", "KERNELS", "draw_mask", "prepare_for_inference"]

product_threads()

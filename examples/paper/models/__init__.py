"""The layers that sec. 4 compares with self-attention, as models: importing this lets `model.kind` name them."""

from examples.paper.models.convolution import ConvolutionalTransformer, ConvolutionConfig
from examples.paper.models.restricted_attention import RestrictedAttentionConfig, RestrictedTransformer
from minitransformer.models import register_model

register_model("convolution", ConvolutionalTransformer, ConvolutionConfig)
register_model("restricted_attention", RestrictedTransformer, RestrictedAttentionConfig)

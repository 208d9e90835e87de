"""The layers that sec. 4 compares with self-attention, as models: importing this lets `model.kind` name them."""

from minitransformer.models import register_model
from models.convolution import ConvolutionalTransformer, ConvolutionConfig
from models.restricted_attention import RestrictedAttentionConfig, RestrictedTransformer

register_model("convolution", ConvolutionalTransformer, ConvolutionConfig)
register_model("restricted_attention", RestrictedTransformer, RestrictedAttentionConfig)

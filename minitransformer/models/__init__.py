"""Whole models, built of the layers of `nn`."""

from minitransformer.models.transformer import Transformer

__all__ = ["Transformer"]

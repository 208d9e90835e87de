"""The same model written with PyTorch's own layers: the outside reference for speed and memory.

It is written as a PyTorch user would write it for speed: packed projections, fused attention, fused cross-entropy.
"""

import math
import re

import torch
import torch.nn.functional as F
from torch import nn

from minitransformer.backend import to_numpy
from minitransformer.config import PAD, ModelConfig
from minitransformer.errors import ConfigError
from minitransformer.models import Transformer
from minitransformer.nn.positions import sinusoids

LONGEST = 1024
"""Positions that the table of sinusoids holds."""

COVERED = {"norm": "post", "positions": "sinusoidal", "tie_embeddings": True, "attention_bias": False}
"""The one variant that is measured: the paper's."""


class MultiHeadAttention(nn.Module):
    """[sec. 3.2.2]; keys, values and, in self-attention, queries too come from one product."""

    def __init__(self, config: ModelConfig, *, is_self: bool):
        super().__init__()
        self.n_heads, self.is_self, self.p_drop = config.n_heads, is_self, config.p_drop_attention
        self.widths = (config.n_heads * config.d_k, config.n_heads * config.d_k, config.n_heads * config.d_v)
        if is_self:
            self.qkv = nn.Linear(config.d_model, sum(self.widths), bias=False)
        else:
            self.q = nn.Linear(config.d_model, self.widths[0], bias=False)
            self.kv = nn.Linear(config.d_model, sum(self.widths[1:]), bias=False)
        self.out = nn.Linear(self.widths[2], config.d_model, bias=False)

    def forward(self, x, memory=None, mask=None, is_causal=False):
        """x: (B, T, d_model)   memory: (B, S, d_model), None in self-attention   mask: (B, 1, 1, S), True = attend"""
        if self.is_self:
            q, k, v = self.qkv(x).split(self.widths, dim=-1)
        else:
            q, (k, v) = self.q(x), self.kv(memory).split(self.widths[1:], dim=-1)
        q, k, v = (part.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for part in (q, k, v))  # (B, H, T, d)
        p_drop = self.p_drop if self.training else 0.0
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=p_drop, is_causal=is_causal)
        return self.out(heads.transpose(1, 2).flatten(2))  # (B, T, d_model)


class Layer(nn.Module):
    """An encoder layer, or with ``crosses`` a decoder layer: each sub-layer in LayerNorm(x + Dropout(sublayer(x)))."""

    def __init__(self, config: ModelConfig, *, crosses: bool):
        super().__init__()
        self.crosses = crosses
        self.self_attention = MultiHeadAttention(config, is_self=True)
        self.self_attention_norm = nn.LayerNorm(config.d_model, eps=1e-6)
        if crosses:
            self.cross_attention = MultiHeadAttention(config, is_self=False)
            self.cross_attention_norm = nn.LayerNorm(config.d_model, eps=1e-6)
        self.w1, self.w2 = nn.Linear(config.d_model, config.d_ff), nn.Linear(config.d_ff, config.d_model)
        self.feed_forward_norm = nn.LayerNorm(config.d_model, eps=1e-6)
        self.dropout, self.dropout_ffn = nn.Dropout(config.p_drop), nn.Dropout(config.p_drop_ffn)

    def forward(self, x, src_mask, memory=None):
        """x: (B, T, d_model)   src_mask: (B, 1, 1, S)   memory: (B, S, d_model) for a decoder layer"""
        own = {"is_causal": True} if self.crosses else {"mask": src_mask}
        x = self.self_attention_norm(x + self.dropout(self.self_attention(x, **own)))
        if self.crosses:
            x = self.cross_attention_norm(x + self.dropout(self.cross_attention(x, memory, src_mask)))
        hidden = self.dropout_ffn(F.relu(self.w1(x)))
        return self.feed_forward_norm(x + self.dropout(self.w2(hidden)))


class TorchTransformer(nn.Module):
    """Our Transformer's replica: ``TorchTransformer.from_ours(model)`` computes what ``model`` computes.

    Raises:
        ConfigError: a variant of the model that is not measured here.
    """

    def __init__(self, config: ModelConfig):
        super().__init__()
        for name, value in COVERED.items():
            if getattr(config, name) != value:
                raise ConfigError(f"benchmarks: model.{name} must be {value!r}, got {getattr(config, name)!r}")
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.encoder = nn.ModuleList(Layer(config, crosses=False) for _ in range(config.n_layers))
        self.decoder = nn.ModuleList(Layer(config, crosses=True) for _ in range(config.n_layers))
        self.dropout = nn.Dropout(config.p_drop)
        table = torch.from_numpy(sinusoids(0, LONGEST, config.d_model))
        self.register_buffer("positions", table.to(getattr(torch, config.dtype)), persistent=False)

    @classmethod
    def from_ours(cls, model: Transformer) -> "TorchTransformer":
        """A replica with a copy of the weights of ``model``, so it also starts from the same distribution."""
        replica = cls(model.config).to(getattr(torch, model.config.dtype))
        weights = {name: torch.tensor(to_numpy(model.parameters[name].data)) for name in model.parameters.names}
        replica.load_state_dict(_renamed(weights))
        return replica

    def forward(self, src_ids, tgt_ids):
        """Logits, (B, S) and (B, T) to (B, T, V)"""
        src_mask = (src_ids != PAD)[:, None, None, :]  # (B, 1, 1, S)
        memory = self._embedded(src_ids)
        for layer in self.encoder:
            memory = layer(memory, src_mask)
        x = self._embedded(tgt_ids)
        for layer in self.decoder:
            x = layer(x, src_mask, memory)
        return F.linear(x, self.embedding.weight)

    def loss(self, src_ids, tgt_in, tgt_out):
        """Label-smoothed cross-entropy with its gradient, nats summed over targets that are not PAD."""
        logits = self(src_ids, tgt_in).flatten(0, 1)  # (B * T, V)
        smoothing = self.config.label_smoothing
        return F.cross_entropy(logits, tgt_out.flatten(), ignore_index=PAD, label_smoothing=smoothing, reduction="sum")

    def _embedded(self, ids):
        x = self.embedding(ids) * math.sqrt(self.config.d_model) + self.positions[: ids.shape[1]]
        return self.dropout(x)


def _renamed(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Our parameters under PyTorch's names. Ours are (d_in, d_out), those of nn.Linear (d_out, d_in)."""
    renamed = {}
    for name, value in weights.items():
        if name.endswith("self_attention.w_q.weight"):
            continue  # goes where its w_kv goes
        if name.endswith("self_attention.w_kv.weight"):
            value = torch.cat([weights[name.replace("w_kv", "w_q")], value], dim=1)
        renamed[_torch_name(name)] = value.T if re.search(r"\.w\w+(\.weight)?$", name) else value
    return renamed


def _torch_name(name: str) -> str:
    """``decoder.layers.0.feed_forward_residual.norm.gamma`` -> ``decoder.0.feed_forward_norm.weight``"""
    changes = [
        (r"\.layers\.", "."),
        (r"_residual\.norm\.gamma$", "_norm.weight"),
        (r"_residual\.norm\.beta$", "_norm.bias"),
    ]
    changes += [(r"self_attention\.w_kv\.", "self_attention.qkv."), (r"\.w_o\.", ".out.")]
    changes += [(r"\.w_(q|kv)\.", r".\1."), (r"\.feed_forward\.w(\d)$", r".w\1.weight")]
    changes += [(r"\.feed_forward\.b(\d)$", r".w\1.bias"), (r"^embedding$", "embedding.weight")]
    for pattern, replacement in changes:
        name = re.sub(pattern, replacement, name)
    return name

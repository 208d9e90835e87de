"""Beam search with the PyTorch replica, as PyTorch users write it: cached keys and values, fused attention."""

import math

import torch
import torch.nn.functional as F

from benchmarks.peers.torch_model import Layer, MultiHeadAttention, TorchTransformer
from minitransformer.config import BOS, EOS, PAD

SUPPRESSED_IDS = [PAD, BOS, EOS]  # every output has as many tokens as are asked for


@torch.inference_mode()
def beam_search(model: TorchTransformer, src_ids: torch.Tensor, new_tokens: int, beam: int = 4) -> torch.Tensor:
    """The most probable output of ``new_tokens`` tokens that a beam finds, (B, S) to (B, new_tokens); no dropout."""
    batch, device = len(src_ids), src_ids.device
    src_mask = (src_ids != PAD)[:, None, None, :]  # (B, 1, 1, S)
    memory = model._embedded(src_ids)
    for layer in model.encoder:
        memory = layer(memory, src_mask)
    crossing = [
        _heads(each.cross_attention, each.cross_attention.kv(memory), slice(1, 3), beam) for each in model.decoder
    ]
    src_mask = src_mask.repeat_interleave(beam, 0)  # (B * beam, 1, 1, S)
    past = [_empty(each.self_attention, batch * beam, new_tokens, memory) for each in model.decoder]
    words = torch.full((batch * beam, 1), BOS, device=device)
    scores = torch.full((batch, beam), -math.inf, device=device)
    scores[:, 0] = 0.0  # at first all beginnings are the same one
    first_row = beam * torch.arange(batch, device=device)[:, None]  # (B, 1): of each sentence
    for step in range(new_tokens):
        x = model.embedding(words[:, -1:]) * math.sqrt(model.config.d_model) + model.positions[step]  # (R, 1, d_model)
        for layer, (keys, values), memory_heads in zip(model.decoder, past, crossing, strict=True):
            x = _step(layer, x, keys, values, step, memory_heads, src_mask)
        log_probs = F.linear(x[:, 0], model.embedding.weight).log_softmax(-1)  # (R, V)
        log_probs[:, SUPPRESSED_IDS] = -math.inf
        totals = (scores[:, :, None] + log_probs.unflatten(0, (batch, beam))).flatten(1)  # (B, beam * V)
        scores, best = totals.topk(beam)
        rows = (first_row + best // log_probs.shape[1]).flatten()
        words = torch.cat([words[rows], (best % log_probs.shape[1]).view(-1, 1)], 1)
        past = [tuple(each.index_select(0, rows) for each in pair) for pair in past]
    return words.unflatten(0, (batch, beam))[:, 0, 1:]


def _heads(
    attention: MultiHeadAttention, packed: torch.Tensor, which: slice = slice(None), repeats: int = 1
) -> list[torch.Tensor]:
    """Projections side by side, those of ``which`` of queries, keys and values, as (B * repeats, H, T, d) each."""
    parts = packed.split(attention.widths[which], -1)
    heads = [part.unflatten(-1, (attention.n_heads, -1)).transpose(1, 2) for part in parts]
    return [each.repeat_interleave(repeats, 0) for each in heads]


def _empty(attention: MultiHeadAttention, rows: int, length: int, like: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Room for the keys and the values of one layer, (R, H, T, d)"""
    shapes = [(rows, attention.n_heads, length, width // attention.n_heads) for width in attention.widths[1:]]
    return tuple(like.new_empty(shape) for shape in shapes)


def _step(
    layer: Layer,
    x: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    step: int,
    memory: list[torch.Tensor],
    src_mask: torch.Tensor,
) -> torch.Tensor:
    """One position through a decoder layer, (R, 1, d_model); its key and value are put into the cache."""
    attention, cross = layer.self_attention, layer.cross_attention
    query, key, value = _heads(attention, attention.qkv(x))
    keys[:, :, step], values[:, :, step] = key[:, :, 0], value[:, :, 0]
    heads = F.scaled_dot_product_attention(query, keys[:, :, : step + 1], values[:, :, : step + 1])
    x = layer.self_attention_norm(x + attention.out(heads.transpose(1, 2).flatten(2)))
    (query,) = _heads(cross, cross.q(x), slice(1))
    heads = F.scaled_dot_product_attention(query, *memory, attn_mask=src_mask)
    x = layer.cross_attention_norm(x + cross.out(heads.transpose(1, 2).flatten(2)))
    return layer.feed_forward_norm(x + layer.w2(F.relu(layer.w1(x))))

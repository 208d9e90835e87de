"""The paper's model once more, on PyTorch's tensors: written from the formulas, head by head, without torch.nn.

It shares nothing with the package but the names and shapes of the weights.
"""

import math

import torch
import torch.nn.functional as F

PAD = 0


class TorchTransformer:
    """weights: name -> array, as in ``model.parameters.table``; each becomes a leaf of the same name."""

    def __init__(self, config, weights: dict):
        self.config = config
        self.weights = {name: torch.tensor(array, requires_grad=True) for name, array in weights.items()}

    def logits(self, src_ids, tgt_ids):
        src_ids, tgt_ids = torch.as_tensor(src_ids).long(), torch.as_tensor(tgt_ids).long()
        real = src_ids != PAD
        memory = self._embed(src_ids, "src_embedding")
        for i in range(self.config.n_layers):
            name = f"encoder.layers.{i}"
            memory = self._sublayer(memory, f"{name}.self_attention", lambda x, n: self._attend(n, x, x, real[:, None]))
            memory = self._sublayer(memory, f"{name}.feed_forward", self._feed_forward)
        memory = self._final_norm(memory, "encoder")

        length = tgt_ids.shape[1]
        earlier = torch.ones(length, length, dtype=torch.bool).tril()
        x = self._embed(tgt_ids, "tgt_embedding")
        for i in range(self.config.n_layers):
            name = f"decoder.layers.{i}"
            x = self._sublayer(x, f"{name}.self_attention", lambda x, n: self._attend(n, x, x, earlier))
            x = self._sublayer(x, f"{name}.cross_attention", lambda x, n: self._attend(n, x, memory, real[:, None]))
            x = self._sublayer(x, f"{name}.feed_forward", self._feed_forward)
        x = self._final_norm(x, "decoder")
        return x @ self.weights.get("projection", self.weights["embedding"]).T

    def loss(self, src_ids, tgt_in, tgt_out):
        """(label-smoothed, plain) cross-entropy, nats summed over targets without padding."""
        logits = self.logits(src_ids, tgt_in).flatten(0, 1)
        targets = torch.as_tensor(tgt_out).long().flatten()
        return tuple(
            F.cross_entropy(logits, targets, reduction="sum", ignore_index=PAD, label_smoothing=eps)
            for eps in (self.config.label_smoothing, 0.0)
        )

    def _embed(self, ids, side):
        table = self.weights.get(f"{side}.table", self.weights["embedding"])
        learned = self.weights.get(f"{side}.learned")
        positions = _sinusoids(ids.shape[1], table.shape[1]) if learned is None else learned[: ids.shape[1]]
        return F.embedding(ids, table) * math.sqrt(self.config.d_model) + positions

    def _sublayer(self, x, name, sublayer):
        """Residual connection with the norm after the sum, as the paper prints it, or before the sub-layer."""
        if self.config.norm == "post":
            return self._norm(x + sublayer(x, name), f"{name}_residual.norm")
        return x + sublayer(self._norm(x, f"{name}_residual.norm"), name)

    def _attend(self, name, x, memory, allowed):
        """Heads one after the other, each with the columns of the weights that are its own."""
        config, packed = self.config, self.weights[f"{name}.w_kv.weight"]
        n_keys = config.n_heads * config.d_k
        w_k, w_v = packed[:, :n_keys], packed[:, n_keys:]
        biases = (self.weights.get(f"{name}.{each}.bias", torch.zeros(1)) for each in ("w_q", "w_kv", "w_o"))
        b_q, b_kv, b_o = biases
        b_kv = b_kv.expand(packed.shape[1])
        q = (x @ self.weights[f"{name}.w_q.weight"] + b_q).split(config.d_k, dim=-1)
        k = (memory @ w_k + b_kv[:n_keys]).split(config.d_k, dim=-1)
        v = (memory @ w_v + b_kv[n_keys:]).split(config.d_v, dim=-1)
        heads = []
        for i in range(config.n_heads):
            scores = torch.einsum("btd,bsd->bts", q[i], k[i]) / math.sqrt(config.d_k)
            weights = torch.softmax(scores.masked_fill(~allowed, -math.inf), dim=-1)
            heads.append(torch.einsum("bts,bsd->btd", weights, v[i]))
        return torch.cat(heads, dim=-1) @ self.weights[f"{name}.w_o.weight"] + b_o

    def _feed_forward(self, x, name):
        w1, b1, w2, b2 = (self.weights[f"{name}.{part}"] for part in ("w1", "b1", "w2", "b2"))
        return torch.clamp(x @ w1 + b1, min=0) @ w2 + b2

    def _norm(self, x, name):
        gamma, beta = self.weights[f"{name}.gamma"], self.weights[f"{name}.beta"]
        return F.layer_norm(x, gamma.shape, gamma, beta, eps=1e-6)

    def _final_norm(self, x, stack):
        return self._norm(x, f"{stack}.final_norm") if self.config.norm == "pre" else x


def _sinusoids(length: int, d_model: int):
    column = torch.arange(d_model, dtype=torch.float64)
    angles = torch.arange(length)[:, None] / 10000 ** (2 * (column // 2) / d_model)
    return torch.where(column % 2 == 0, angles.sin(), angles.cos())

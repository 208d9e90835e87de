"""Attention Is All You Need (Vaswani et al., 2017) in one file, with NumPy alone.

    python examples/one_file.py     learns to reverse digits, a minute on one core

The model, its gradients and its training, in the paper's order and letters. Each part is a pair of
functions: f(x, W) returns y and what the backward pass needs, and f_backward turns dy, the gradient
of the loss with respect to y, into those with respect to x and W. Left out: dropout (sec. 5.4) and
beam search (sec. 6.1).
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # for small matrices more gain nothing

import numpy as np

# ---- Sizes: small here. The base model of the paper has N, d_model, d_ff, h = 6, 512, 2048, 8.
N, d_model, d_ff, h = 2, 64, 128, 4  # layers, width, width within the feed-forward layer, heads
scaled, epsilon_ls = 1, 0.1  # eq. 1: scores are divided by sqrt(d_k), sec. 5.4: label smoothing
warmup_steps, rate_scale = 200, 0.35  # eq. 3, where they are 4000 and 1
batch, longest = 64, 8  # sequences in an update, and the digits of the longest of them
PAD, BOS, EOS, ZERO, n_tokens = 0, 1, 2, 3, 13  # ids of tokens: ZERO is the digit 0, 12 the digit 9


# ---- Sec. 3.2.1: scaled dot-product attention
def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))  # without that, exp might overflow
    return e / e.sum(-1, keepdims=True)


def attention(Q, K, V, mask):
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V      [eq. 1]

    Q: (..., T, d_k)   K: (..., S, d_k)   V: (..., S, d_v)   mask: (..., T, S), True = may be seen
    """
    scale = K.shape[-1] ** -0.5 if scaled else 1.0
    scores = scale * Q @ K.swapaxes(-1, -2)
    A = softmax(np.where(mask, scores, -np.inf))  # each row: how much each of S positions matters
    return A @ V, (Q, K, V, A, scale)


def attention_backward(dY, saved):
    Q, K, V, A, scale = saved
    dV = A.swapaxes(-1, -2) @ dY
    dA = dY @ V.swapaxes(-1, -2)
    dscores = scale * A * (dA - (dA * A).sum(-1, keepdims=True))  # back through the softmax
    return dscores @ K, dscores.swapaxes(-1, -2) @ Q, dV


# ---- Sec. 3.2.2: multi-head attention
def split(x):
    """(B, T, h d_k) to (B, h, T, d_k): each head has d_k of the columns"""
    return x.reshape(*x.shape[:2], h, -1).swapaxes(1, 2)


def concat(heads):
    """(B, h, T, d_v) to (B, T, h d_v): Concat(head_1, ..., head_h)"""
    return heads.swapaxes(1, 2).reshape(len(heads), heads.shape[2], -1)


def product_backward(dy, x, W):
    """Of y = x W: dx = dy W^T and dW = x^T dy, summed over all positions"""
    return dy @ W.T, x.reshape(-1, x.shape[-1]).T @ dy.reshape(-1, dy.shape[-1])


def multi_head(x, memory, mask, W_Q, W_K, W_V, W_O):
    """Concat(head_1, ..., head_h) W^O,   head_i = Attention(x W_i^Q, memory W_i^K, memory W_i^V)

    x: (B, T, d_model)   memory: (B, S, d_model), x itself in self-attention   W_Q: W_1^Q ... W_h^Q
    """
    heads, saved = attention(split(x @ W_Q), split(memory @ W_K), split(memory @ W_V), mask)
    joined = concat(heads)
    return joined @ W_O, (x, memory, W_Q, W_K, W_V, W_O, joined, saved)


def multi_head_backward(dy, saved):
    x, memory, W_Q, W_K, W_V, W_O, joined, saved_attention = saved
    djoined, dW_O = product_backward(dy, joined, W_O)
    dQ, dK, dV = map(concat, attention_backward(split(djoined), saved_attention))
    dx, dW_Q = product_backward(dQ, x, W_Q)
    dmemory_K, dW_K = product_backward(dK, memory, W_K)
    dmemory_V, dW_V = product_backward(dV, memory, W_V)
    return dx, dmemory_K + dmemory_V, dW_Q, dW_K, dW_V, dW_O


# ---- Sec. 3.3: position-wise feed-forward network
def feed_forward(x, W_1, b_1, W_2, b_2):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2      [eq. 2]"""
    hidden = np.maximum(0, x @ W_1 + b_1)
    return hidden @ W_2 + b_2, (x, hidden, W_1, W_2)


def feed_forward_backward(dy, saved):
    x, hidden, W_1, W_2 = saved
    dhidden, dW_2 = product_backward(dy, hidden, W_2)
    dhidden = dhidden * (hidden > 0)  # max(0, .) lets through only what was above 0
    dx, dW_1 = product_backward(dhidden, x, W_1)
    return dx, dW_1, dhidden.sum((0, 1)), dW_2, dy.sum((0, 1))


# ---- Sec. 3.1: LayerNorm(x + Sublayer(x)), around every sub-layer
def add_and_norm(x, sublayer, gamma, beta):
    """gamma * (z - mean) / std + beta,   z = x + sublayer      [Ba et al. 2016]"""
    z = x + sublayer
    std = np.sqrt(z.var(-1, keepdims=True) + 1e-6)
    z_hat = (z - z.mean(-1, keepdims=True)) / std
    return gamma * z_hat + beta, (z_hat, std, gamma)


def add_and_norm_backward(dy, saved):
    """dz, the gradient with respect to both x and sublayer, then those for gamma and beta"""
    z_hat, std, gamma = saved
    d = dy * gamma
    # What moves all of z alike, or only stretches it, does not change z_hat: no gradient that way.
    dz = (d - d.mean(-1, keepdims=True) - z_hat * (d * z_hat).mean(-1, keepdims=True)) / std
    return dz, (dy * z_hat).sum((0, 1)), dy.sum((0, 1))


# ---- Sec. 3.4 and 3.5: embeddings, one matrix E for source, target and output, and positions
def positions(T):
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)),   PE(pos, 2i+1) = cos(the same)"""
    angles = np.arange(T)[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(T, d_model)


def embed(ids, E):
    return np.sqrt(d_model) * E[ids] + positions(ids.shape[1])


def embed_backward(dx, ids, E):
    dE = np.zeros_like(E)
    np.add.at(dE, ids, np.sqrt(d_model) * dx)  # a token that occurs twice gets both gradients
    return dE


# ---- Sec. 3.1: the two stacks of Figure 1. p: parameters by name, g: their gradients by name
def encoder_layer(x, mask, p, name):
    y, saved_1 = multi_head(x, x, mask, *p[name + "attention"])
    x, saved_2 = add_and_norm(x, y, *p[name + "attention norm"])
    y, saved_3 = feed_forward(x, *p[name + "feed-forward"])
    x, saved_4 = add_and_norm(x, y, *p[name + "feed-forward norm"])
    return x, (saved_1, saved_2, saved_3, saved_4)


def encoder_layer_backward(dx, saved, g, name):
    """The same four lines from the last to the first. x went two ways, so its gradients add up."""
    saved_1, saved_2, saved_3, saved_4 = saved
    dx, *g[name + "feed-forward norm"] = add_and_norm_backward(dx, saved_4)
    dy, *g[name + "feed-forward"] = feed_forward_backward(dx, saved_3)
    dx, *g[name + "attention norm"] = add_and_norm_backward(dx + dy, saved_2)
    dy, dmemory, *g[name + "attention"] = multi_head_backward(dx, saved_1)
    return dx + dy + dmemory


def decoder_layer(x, memory, causal, mask, p, name):
    y, saved_1 = multi_head(x, x, causal, *p[name + "attention"])
    x, saved_2 = add_and_norm(x, y, *p[name + "attention norm"])
    y, saved_3 = multi_head(x, memory, mask, *p[name + "cross-attention"])
    x, saved_4 = add_and_norm(x, y, *p[name + "cross-attention norm"])
    y, saved_5 = feed_forward(x, *p[name + "feed-forward"])
    x, saved_6 = add_and_norm(x, y, *p[name + "feed-forward norm"])
    return x, (saved_1, saved_2, saved_3, saved_4, saved_5, saved_6)


def decoder_layer_backward(dx, dmemory, saved, g, name):
    saved_1, saved_2, saved_3, saved_4, saved_5, saved_6 = saved
    dx, *g[name + "feed-forward norm"] = add_and_norm_backward(dx, saved_6)
    dy, *g[name + "feed-forward"] = feed_forward_backward(dx, saved_5)
    dx, *g[name + "cross-attention norm"] = add_and_norm_backward(dx + dy, saved_4)
    dy, dkeys, *g[name + "cross-attention"] = multi_head_backward(dx, saved_3)
    dx, *g[name + "attention norm"] = add_and_norm_backward(dx + dy, saved_2)
    dy, dpast, *g[name + "attention"] = multi_head_backward(dx, saved_1)
    return dx + dy + dpast, dmemory + dkeys


def encode(src, p):
    """src: (B, S), padded with PAD: the output of the encoder, (B, S, d_model), and its mask"""
    mask, saved = (src != PAD)[:, None, None, :], {}
    x = embed(src, *p["E"])
    for i in range(N):
        x, saved[i] = encoder_layer(x, mask, p, f"encoder {i} ")
    return x, mask, saved


def decode(tgt, memory, mask, p):
    """tgt: (B, T), from BOS on: the output of the decoder, (B, T, d_model)"""
    causal, saved = np.tri(tgt.shape[1], dtype=bool), {}  # a position sees itself and those before
    x = embed(tgt, *p["E"])
    for i in range(N):
        x, saved[i] = decoder_layer(x, memory, causal, mask, p, f"decoder {i} ")
    return x, saved


# ---- Sec. 5.4: the loss with label smoothing
def cross_entropy(x, E, targets):
    """-sum q ln p per token,   p = softmax(x E^T), q = (1 - eps) one-hot + eps / n_tokens"""
    p, real = softmax(x @ E.T), targets != PAD
    q = (1 - epsilon_ls) * np.eye(len(E))[targets] + epsilon_ls / len(E)
    dlogits = (p - q) * real[..., None] / real.sum()  # the gradient of the loss by x E^T
    return -(q * np.log(p)).sum(-1)[real].mean(), dlogits


def loss_and_gradients(p, src, tgt_in, tgt_out):
    """Forward through the whole of Figure 1, then back from the loss to every parameter."""
    (E,), g = p["E"], {}
    memory, mask, saved_encoder = encode(src, p)
    x, saved_decoder = decode(tgt_in, memory, mask, p)
    loss, dlogits = cross_entropy(x, E, tgt_out)
    dx, dE_T = product_backward(dlogits, x, E.T)
    dmemory = 0  # every layer of the decoder looked at the same memory: the gradients add up
    for i in reversed(range(N)):
        dx, dmemory = decoder_layer_backward(dx, dmemory, saved_decoder[i], g, f"decoder {i} ")
    dE = dE_T.T + embed_backward(dx, tgt_in, E)
    for i in reversed(range(N)):
        dmemory = encoder_layer_backward(dmemory, saved_encoder[i], g, f"encoder {i} ")
    g["E"] = [dE + embed_backward(dmemory, src, E)]
    return loss, g


# ---- Sec. 5.3: Adam, with a rate that rises for warmup_steps and falls with 1 / sqrt(step)
def adam(p, g, m, v, step, beta_1=0.9, beta_2=0.98, epsilon=1e-9):
    lrate = rate_scale * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)  # eq. 3
    for name in p:
        for W, dW, m_W, v_W in zip(p[name], g[name], m[name], v[name], strict=True):
            m_W += (1 - beta_1) * (dW - m_W)  # mean of the gradients, the newest weigh most
            v_W += (1 - beta_2) * (dW * dW - v_W)  # the same of their squares
            m_hat, v_hat = m_W / (1 - beta_1**step), v_W / (1 - beta_2**step)
            W -= lrate * m_hat / (np.sqrt(v_hat) + epsilon)


# ---- Parameters, examples, training
def make_parameters(rng):
    def matrix(rows, columns):  # Xavier: keeps the size of what goes through, there and back
        limit = np.sqrt(6 / (rows + columns))
        return rng.uniform(-limit, limit, (rows, columns))

    p = {"E": [rng.normal(0, d_model**-0.5, (n_tokens, d_model))]}
    for name in [f"{stack} {i} " for i in range(N) for stack in ("encoder", "decoder")]:
        attentions = ["attention"] if name[0] == "e" else ["attention", "cross-attention"]
        for attention_name in attentions:
            p[name + attention_name] = [matrix(d_model, d_model) for _ in range(4)]
        b_1, b_2 = np.zeros(d_ff), np.zeros(d_model)
        p[name + "feed-forward"] = [matrix(d_model, d_ff), b_1, matrix(d_ff, d_model), b_2]
        for sublayer in (*attentions, "feed-forward"):
            p[f"{name}{sublayer} norm"] = [np.ones(d_model), np.zeros(d_model)]
    return p


def draw_examples(rng, n, shortest=1):
    """n sequences of digits and their reverses: src, tgt_in (from BOS on), tgt_out (with EOS)"""
    src, tgt_in, tgt_out = np.full((3, n, longest + 1), PAD)
    for i, length in enumerate(rng.integers(shortest, longest + 1, n)):
        digits = rng.integers(ZERO, ZERO + 10, length)
        src[i, : length + 1] = [*digits, EOS]
        tgt_in[i, : length + 1] = [BOS, *digits[::-1]]
        tgt_out[i, : length + 1] = [*digits[::-1], EOS]
    return src, tgt_in, tgt_out


def greedy(src, p):
    """The likeliest token again and again, until every row has its EOS: (B, T), then PAD"""
    memory, mask, _ = encode(src, p)
    tgt, done = np.full((len(src), 1), BOS), np.zeros(len(src), bool)
    while not done.all() and tgt.shape[1] <= src.shape[1] + 1:
        x, _ = decode(tgt, memory, mask, p)
        token = np.where(done, PAD, (x[:, -1] @ p["E"][0].T).argmax(-1))
        tgt, done = np.c_[tgt, token], done | (token == EOS)
    return tgt[:, 1:]


def train(updates, seed=1):
    """Yields (update, loss, parameters) after every update."""
    rng = np.random.default_rng(seed)
    p = make_parameters(rng)
    m, v = ({name: [np.zeros_like(W) for W in p[name]] for name in p} for _ in range(2))
    for update in range(1, updates + 1):
        loss, g = loss_and_gradients(p, *draw_examples(rng, batch))
        adam(p, g, m, v, update)
        yield update, loss, p


def text(ids):
    return "".join(str(token - ZERO) for token in ids if token >= ZERO)


def main(updates=1500):
    src, _, wanted = draw_examples(np.random.default_rng(2), 1000, longest)  # 10^8 of them exist
    for update, loss, p in train(updates):
        if update % 100 == 0 or update == 1:
            a, b = text(src[0]), text(greedy(src[:1], p)[0])
            print(f"update {update}: loss {loss:.3f}, {a} reversed is {b}", flush=True)
    right = sum(text(a) == text(b) for a, b in zip(greedy(src, p), wanted, strict=True))
    print(f"{right} of {len(src)} new sequences of {longest} digits reversed exactly")


if __name__ == "__main__":
    main()

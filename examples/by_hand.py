"""The training loop by hand, on digits to reverse: python examples/by_hand.py, a minute on two cores."""

import os
import random

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # matrices this small gain nothing from a second thread

from minitransformer.config import UNK, ModelConfig
from minitransformer.generation import greedy_search
from minitransformer.models import Transformer
from minitransformer.optim import Adam, clip_gradient_norm, learning_rate
from minitransformer.text import Batch, pad_batch

ZERO = UNK + 1  # the token of digit 0; the ids before it are PAD, BOS, EOS and UNK
updates, rng = 1200, random.Random(1)


def draw_batch(size: int, shortest: int = 1, longest: int = 8) -> Batch:
    sequences = [rng.choices(range(ZERO, ZERO + 10), k=rng.randint(shortest, longest)) for _ in range(size)]
    return pad_batch(sequences, [sequence[::-1] for sequence in sequences])


config = ModelConfig(vocab_size=ZERO + 10, n_layers=2, d_model=64, d_ff=256, n_heads=4, p_drop=0.0, label_smoothing=0.0)
model = Transformer(config, seed=1)
adam = Adam(model.parameters)
for update in range(1, updates + 1):
    batch = draw_batch(size=64)
    model.parameters.zero_grad()
    loss, _ = model.loss(batch)  # nats, summed over the target tokens
    loss.backward(1 / batch.n_tgt_tokens)
    clip_gradient_norm(model.parameters.grad, 1.0)
    adam.step(learning_rate(update, config.d_model, warmup_steps=200, scale=0.35))
    if update == 1 or update % 100 == 0:
        print(f"update {update}: {loss.item() / batch.n_tgt_tokens:.4f} nats per token", flush=True)
test = draw_batch(size=1000, shortest=8)  # there are a hundred million such sequences: these are new to the model
outputs = [hypothesis.ids for hypothesis in greedy_search(model, test.src, max_extra=5)]
for source, output in zip(test.src[:3, :-1].tolist(), outputs, strict=False):
    print([token - ZERO for token in source], "reversed is", [token - ZERO for token in output])
print(f"{sum(map(list.__eq__, outputs, test.tgt_out[:, :-1].tolist()))} of 1000 unseen sequences reversed exactly")

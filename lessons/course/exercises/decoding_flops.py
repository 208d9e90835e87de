"""Exercise of lesson 12: FLOPs of generating, with and without a cache."""

from course.exercise import Exercise, Mistake


def decoding_flops(
    n_src, n_tgt, d_model, d_ff, n_heads, d_k, *, two=2, feed=1, past=None, memory_once=True, causal=False
):
    """FLOPs of one decoder layer without and with a cache, with what each mistake counts otherwise."""
    wide = n_heads * d_k

    def products(n_new, n_keys, n_memory):
        """n_new positions attend to n_keys of their own side; keys and values of n_memory positions are made."""
        own = n_new * 4 * d_model * wide + n_new * n_keys * 2 * wide
        cross = n_new * 2 * d_model * wide + n_memory * 2 * d_model * wide + n_new * n_src * 2 * wide
        return two * (own + cross + feed * n_new * 2 * d_model * d_ff)

    steps = range(1, n_tgt + 1)
    without = sum(products(t, (t + 1) / 2 if causal else t, n_src) for t in steps)
    cached = sum(products(1, t if past is None else past(t, n_tgt), n_src * (t == 1 or not memory_once)) for t in steps)
    return without, cached


def flops_with(**otherwise):
    return lambda *shape: decoding_flops(*shape, **otherwise)


DECODING_FLOPS = Exercise(
    "12_decoding.decoding_flops",
    lambda rng: [(1, 1, 2, 3, 1, 2), (3, 4, 6, 10, 2, 5), (25, 25, 512, 2048, 8, 64)],
    reference=lambda n_src, n_tgt, d_model, d_ff, n_heads, d_k: decoding_flops(
        n_src, n_tgt, d_model, d_ff, n_heads, d_k
    ),
    tested="three shapes, the last of them a decoder layer of the base model writing 25 tokens",
    rtol=1e-12,
    parts=("uncached", "cached"),
    mistakes=(
        Mistake(
            "Multiplications alone are counted, half of the FLOPs: each comes with an addition.", flops_with(two=1)
        ),
        Mistake("The feed-forward layer is missing.", flops_with(feed=0)),
        Mistake(
            "Without a cache the causal half of the scores is counted; the product computes all scores and hides half.",
            flops_with(causal=True),
        ),
        Mistake(
            "With the cache the memory's keys and values are made at every step; they are made once.",
            flops_with(memory_once=False),
        ),
        Mistake(
            "Without a cache the memory's keys and values are made again at every step; here they are made once.",
            lambda n_src, n_tgt, d_model, d_ff, n_heads, d_k: (
                decoding_flops(n_src, n_tgt, d_model, d_ff, n_heads, d_k)[0]
                - (n_tgt - 1) * 4 * n_src * d_model * n_heads * d_k,
                decoding_flops(n_src, n_tgt, d_model, d_ff, n_heads, d_k)[1],
            ),
        ),
        Mistake(
            "With the cache query t meets t keys, itself included; here it meets all n_tgt.",
            flops_with(past=lambda t, n_tgt: n_tgt),
        ),
        Mistake(
            "With the cache query t meets t keys, itself included; here it meets t - 1.",
            flops_with(past=lambda t, n_tgt: t - 1),
        ),
        Mistake("The two numbers are exchanged: without a cache first.", lambda *shape: decoding_flops(*shape)[::-1]),
        Mistake(
            "Without a cache only the last step is counted. Each step runs all tokens so far again: sum over steps.",
            lambda n_src, n_tgt, *shape: (
                decoding_flops(n_src, n_tgt, *shape)[0] - decoding_flops(n_src, n_tgt - 1, *shape)[0],
                decoding_flops(n_src, n_tgt, *shape)[1],
            ),
        ),
    ),
)

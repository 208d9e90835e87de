"""Our Transformer's weights in two peers that translate: Hugging Face's Marian model and CTranslate2.

Both are the post-norm model of the paper with sinusoids and one shared embedding. Marian has biases in its attention:
they are zero here. Its table of positions has the sines first and the cosines after them: ours is copied over it.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from transformers import GenerationConfig, MarianConfig, MarianMTModel

from minitransformer.backend import to_numpy
from minitransformer.config import BOS, PAD, ModelConfig
from minitransformer.errors import ConfigError
from minitransformer.models import Transformer
from minitransformer.nn.positions import sinusoids

if TYPE_CHECKING:
    import ctranslate2

LONGEST = 512  # positions in Marian's table
NORM_EPS = 1e-6
LAYER_NAMES = {
    r"self_attention\.w_q\.weight": "self_attn.q_proj.weight",
    r"self_attention\.w_o\.weight": "self_attn.out_proj.weight",
    r"cross_attention\.w_q\.weight": "encoder_attn.q_proj.weight",
    r"cross_attention\.w_o\.weight": "encoder_attn.out_proj.weight",
    r"self_attention_residual\.norm\.gamma": "self_attn_layer_norm.weight",
    r"self_attention_residual\.norm\.beta": "self_attn_layer_norm.bias",
    r"cross_attention_residual\.norm\.gamma": "encoder_attn_layer_norm.weight",
    r"cross_attention_residual\.norm\.beta": "encoder_attn_layer_norm.bias",
    r"feed_forward\.w1": "fc1.weight",
    r"feed_forward\.b1": "fc1.bias",
    r"feed_forward\.w2": "fc2.weight",
    r"feed_forward\.b2": "fc2.bias",
    r"feed_forward_residual\.norm\.gamma": "final_layer_norm.weight",
    r"feed_forward_residual\.norm\.beta": "final_layer_norm.bias",
}


def marian_model(model: Transformer) -> MarianMTModel:
    """Marian with the weights of ``model``, ready to generate as many tokens as asked for, never ending early."""
    marian = MarianMTModel(_marian_config(model.config)).eval()
    marian.generation_config = GenerationConfig(
        pad_token_id=PAD, eos_token_id=None, decoder_start_token_id=BOS, use_cache=True
    )
    weights = _marian_weights(model)
    with torch.no_grad():
        for name, parameter in marian.named_parameters():
            if "embed_positions" in name:
                parameter.copy_(torch.from_numpy(sinusoids(0, LONGEST, model.config.d_model)))
            elif name.endswith("proj.bias"):  # of attention: ours has none
                parameter.zero_()
            else:
                parameter.copy_(weights.pop(name))
    if weights:
        raise ConfigError(f"benchmarks: Marian has no place for {', '.join(weights)}")
    for module in marian.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = NORM_EPS
    return marian


def _marian_config(ours: ModelConfig) -> MarianConfig:
    return MarianConfig(
        vocab_size=ours.vocab_size,
        d_model=ours.d_model,
        encoder_layers=ours.n_layers,
        decoder_layers=ours.n_layers,
        encoder_attention_heads=ours.n_heads,
        decoder_attention_heads=ours.n_heads,
        encoder_ffn_dim=ours.d_ff,
        decoder_ffn_dim=ours.d_ff,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=LONGEST,
        pad_token_id=PAD,
        eos_token_id=None,
        forced_eos_token_id=None,
        decoder_start_token_id=BOS,
    )


def _marian_weights(model: Transformer) -> dict[str, torch.Tensor]:
    """Our parameters under Marian's names. Ours are (d_in, d_out), those of nn.Linear (d_out, d_in)."""
    weights = {name: torch.tensor(to_numpy(model.parameters[name].data)) for name in model.parameters.names}
    renamed = {"model.shared.weight": weights.pop("embedding")}
    for name, value in weights.items():
        renamed |= _layer_weights(name, value.T if re.search(r"\.w\w*(\.weight)?$", name) else value)
    return renamed


def _layer_weights(name: str, value: torch.Tensor) -> dict[str, torch.Tensor]:
    """One parameter of ours, already as (d_out, d_in), under Marian's names."""
    stack, number, rest = re.fullmatch(r"(encoder|decoder)\.layers\.(\d+)\.(.*)", name).groups()
    prefix = f"model.{stack}.layers.{number}."
    if rest.endswith("w_kv.weight"):
        attention = "self_attn" if rest.startswith("self") else "encoder_attn"
        keys, values = value.chunk(2)
        return {f"{prefix}{attention}.k_proj.weight": keys, f"{prefix}{attention}.v_proj.weight": values}
    (theirs,) = [theirs for pattern, theirs in LAYER_NAMES.items() if re.fullmatch(pattern, rest)]
    return {prefix + theirs: value}


def ctranslate2_translator(marian: MarianMTModel, folder: Path, threads: int) -> "ctranslate2.Translator":
    """CTranslate2 in float32 with the weights of ``marian``, its model in ``folder``; words are the ids as text."""
    import ctranslate2  # here: Marian alone needs none
    from ctranslate2.converters.transformers import BartLoader

    marian.config.normalize_before = marian.config.normalize_embedding = False
    spec = BartLoader().get_model_spec(marian)
    words = [str(number) for number in range(marian.config.vocab_size)]
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    # A word that is never the best stands where CTranslate2 wants to know the end.
    spec.config.bos_token = spec.config.decoder_start_token = words[BOS]
    spec.config.eos_token = spec.config.unk_token = words[PAD]
    spec.config.layer_norm_epsilon = NORM_EPS
    spec.validate()
    spec.save(str(folder))
    return ctranslate2.Translator(str(folder), device="cpu", compute_type="float32", intra_threads=threads)

"""Marian's own ``.npz``, as OPUS-MT publishes it: the tensors, and the settings of the training as YAML inside."""

import re
import zipfile
from pathlib import Path

import numpy as np

from minitransformer.checkpoints import Checkpoint
from minitransformer.errors import DataError, quote
from minitransformer.files import read_bounded
from minitransformer.interop.layers import halves_to_pairs, rename, take, to_ours
from minitransformer.interop.model import checkpoint_of, marian_config, with_special_rows
from minitransformer.models import ImportedConfig
from minitransformer.text import PieceTokenizer
from minitransformer.text.corpus import MAX_TEXT

TABLES = {
    "embedding": "encoder_Wemb",
    "tgt_embedding": "decoder_Wemb",
    "projection": "decoder_ff_logit_out_Wt",
    "output_bias": "decoder_ff_logit_out_b",
}
BLOCKS = {"self": "self", "cross": "context", "ffn": "ffn"}
SIZE_NAMES = {
    "dec-depth": "n_layers",
    "dim-emb": "d_model",
    "transformer-heads": "n_heads",
    "transformer-dim-ffn": "d_ff",
}
"""Settings, and what they are called here."""
ACTIVATIONS = {"relu": "relu", "swish": "swish", "gelu": "gelu_sigmoid"}
REQUIRED = {
    "type": "transformer",
    "transformer-preprocess": "",
    "transformer-postprocess": "dan",
    "transformer-postprocess-emb": "d",
    "transformer-ffn-depth": "2",
    "transformer-decoder-autoreg": "self-attention",
    "transformer-no-projection": "false",
    "transformer-train-position-embeddings": "false",
}
"""Settings that must have these values, or be left out: dropout, residual sum and norm after each sub-layer, and so on.
If a setting that is not listed adds something to the model, that has tensors, which `take` then refuses."""
ROWS = (None, None, 0, 1)
"""Rows of PAD, BOS, EOS and UNK: Marian begins with a vector of zeros, and has no padding."""


def their_name(name: str) -> str:
    """The name in the file for a common name."""
    if "." not in name:
        return TABLES[name]
    side, layer, block, part, leaf = name.split(".")
    at = f"{side}_l{int(layer) + 1}_{BLOCKS[block]}"
    if part == "norm":
        return f"{at}_{'ffn' if block == 'ffn' else 'Wo'}_ln_{'scale' if leaf == 'weight' else 'bias'}"
    return f"{at}_{'W' if leaf == 'weight' else 'b'}{part}"


def read_npz(path: Path) -> Checkpoint:
    """The model of a Marian file, and its vocabulary if ``source.spm``, ``target.spm`` and a ``vocab.yml`` are there.

    Raises:
        DataError: the file is damaged, or a model with parts that are not understood.
    """
    tensors = read_arrays(path)
    if "special:model.yml" not in tensors:
        raise DataError(f"{path}: must be a Marian model with its settings, special:model.yml, got none")
    settings = _settings(tensors.pop("special:model.yml"), str(path))
    config = _config(settings, tensors, str(path))
    if config.tie_embeddings:
        tensors = rename(tensors, lambda name: "encoder_Wemb" if name == "Wemb" else name, str(path))
    elif "decoder_ff_logit_out_W" in tensors:
        tensors["decoder_ff_logit_out_Wt"] = tensors.pop("decoder_ff_logit_out_W").T
    elif "decoder_Wemb" in tensors:
        tensors.setdefault("decoder_ff_logit_out_Wt", tensors["decoder_Wemb"])
    tensors = {name: a.reshape(-1) if a.ndim == 2 and len(a) == 1 else a for name, a in tensors.items()}
    common = take(tensors, config, their_name, str(path))
    ours = with_special_rows(to_ours(common, config, halves_to_pairs(config.d_model)), ROWS)
    return checkpoint_of(ours, config, _tokenizer(path.parent, common))


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an ``.npz`` without pickle; DataError if it is not one."""
    try:
        size = path.stat().st_size
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
        if sum(entry.file_size for entry in entries) > 20 * size:  # compressed, an array might be a thousand times
            raise DataError(f"{path}: must unpack to at most 20 times its size, got more")
        if len({entry.filename.removesuffix(".npy") for entry in entries}) < len(entries):
            raise DataError(f"{path}: must have one array of each name, got two of one")
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        if not all(isinstance(array, np.ndarray) for array in arrays.values()):
            raise ValueError("an entry is no array")
        return arrays
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    except Exception as error:  # damaged bytes make zipfile and NumPy raise nearly anything
        raise DataError(f"{path}: must be an .npz of arrays, got a damaged or foreign file") from error


def _settings(entry: np.ndarray, where: str) -> dict[str, str]:
    """The settings of one line each, ``key: value``; lists, which continue below, are left out."""
    text = entry.tobytes().rstrip(b"\0").decode("utf-8", errors="replace")
    if len(text) > MAX_TEXT:
        raise DataError(f"{where}: its settings must have less than {MAX_TEXT} bytes")
    pairs = re.findall(r"^([\w-]+):(.*)$", text, flags=re.MULTILINE)
    return {key: value.strip(" \t").strip("\"'") for key, value in pairs}


def _config(settings: dict[str, str], tensors: dict[str, np.ndarray], where: str) -> ImportedConfig:
    for key, wanted in REQUIRED.items():
        if settings.get(key, wanted) != wanted:
            raise DataError(f"{where}: {key} must be {wanted!r}, got {quote(settings[key])}; another kind of model")
    try:
        sizes = {name: int(settings[key]) for key, name in SIZE_NAMES.items()}
        n_encoder = int(settings["enc-depth"])
        activation = ACTIVATIONS[settings.get("transformer-ffn-activation", "swish")]
    except (KeyError, ValueError) as error:
        raise DataError(
            f"{where}: its settings must hold numbers for depths, widths and heads, got none or others"
        ) from error
    if n_encoder != sizes["n_layers"]:
        got = f"{n_encoder} and {sizes['n_layers']}"
        raise DataError(f"{where}: enc-depth and dec-depth must be one number, got {got}")
    is_tied = "Wemb" in tensors and not any("logit_out_W" in name for name in tensors)
    return marian_config(where, **sizes, tie_embeddings=is_tied, activation=activation)


def _tokenizer(folder: Path, common: dict[str, np.ndarray]) -> PieceTokenizer | None:
    files = [folder / "source.spm", folder / "target.spm"]
    vocabularies = sorted(folder.glob("*vocab.yml"))
    if not vocabularies or not all(file.is_file() for file in files):
        return None
    if len(vocabularies) > 1:
        raise DataError(f"{folder}: must have one *vocab.yml, got {len(vocabularies)}; move away the others")
    pieces, vocabulary = [], read_vocabulary(vocabularies[0])
    for table in ("embedding", "tgt_embedding" if "tgt_embedding" in common else "embedding"):
        if len(vocabulary) != len(common[table]):
            raise DataError(
                f"{vocabularies[0]}: must have the model's {len(common[table])} pieces, got {len(vocabulary)}"
            )
        pieces.append([piece for number, piece in enumerate(vocabulary) if number not in ROWS])
    return PieceTokenizer([read_bounded(file, MAX_TEXT) for file in files], pieces, where=str(folder))


ESCAPES = dict(zip("ntr0eabvf_", "\n\t\r\0\x1b\a\b\v\f\xa0", strict=True))
"""What a letter after a backslash stands for in YAML; any other letter stands for itself."""


def read_vocabulary(path: Path) -> list[str]:
    """The pieces of a ``vocab.yml`` in the order of their numbers. Parsed by hand: YAML has many rules for such keys.

    Raises:
        DataError: it cannot be read, or its numbers are not 0, 1, 2, ... each once.
    """
    try:
        text = read_bounded(path, MAX_TEXT).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: must be a vocabulary in UTF-8, got {quote(str(error))}") from error
    by_number: dict[int, str] = {}
    key = ""
    for line in text.split("\n"):
        if line.startswith("? "):  # a long key, and its number in the next line
            key = line[2:]
        else:
            before, colon, number = map(str.strip, line.rpartition(":"))
            if colon and number.isdecimal() and len(number) < 10:
                if int(number) in by_number:
                    raise DataError(f"{path}: must number each piece once, got {number} again")
                by_number[int(number)] = _unquoted(before or key)
    if sorted(by_number) != list(range(len(by_number))) or len(by_number) < 3:
        raise DataError(f"{path}: must number its pieces 0, 1, 2 and so on, got others")
    return [by_number[number] for number in range(len(by_number))]


def _unquoted(key: str) -> str:
    if key.startswith('"') and key.endswith('"') and len(key) > 1:
        return re.sub(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", _unescaped, key[1:-1])
    if key.startswith("'") and key.endswith("'") and len(key) > 1:
        return key[1:-1].replace("''", "'")
    return key


def _unescaped(match: re.Match) -> str:
    code = match[1]
    if len(code) == 1:
        return ESCAPES.get(code, code)
    number = int(code[1:], 16)
    return chr(number) if number < 0xD800 or 0xDFFF < number < 0x110000 else "\ufffd"

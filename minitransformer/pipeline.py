"""A trained model in three lines: ``model = minitransformer.load(PATH); model.translate(["..."])``."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from minitransformer.batch import pad_rows
from minitransformer.checkpoints import Checkpoint, RunFolder, load_checkpoint
from minitransformer.config import EOS, TranslationConfig
from minitransformer.errors import CheckpointError, ConfigError
from minitransformer.evaluation import Score, corpus_bleu
from minitransformer.files import file_hash
from minitransformer.generation import Hypothesis, hypothesis_attention, sample, search_lines
from minitransformer.generation.translate import hypothesis_text
from minitransformer.models import Model
from minitransformer.text import Tokenizer
from minitransformer.text.corpus import check_lines

MODELS = {"en-de": "b3fc5046a2d1f2c01b53d72d9219b96f1b725dbf435e67ccc6b59546d2c6325d"}
"""Name and SHA-256 of each model that can be loaded by name: models/NAME.npz in a checkout of this project."""

CHECKOUT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Translation:
    """A translation and what was requested: its ``score``, as in `Hypothesis`, and, with the subwords of both sides
    (EOS included), the ``attention`` weights of `hypothesis_attention`."""

    text: str
    score: float
    attention: dict[str, np.ndarray] | None = field(default=None, repr=False)
    src_subwords: list[str] | None = field(default=None, repr=False)
    tgt_subwords: list[str] | None = field(default=None, repr=False)


@dataclass(frozen=True, repr=False)
class Pipeline:
    """A trained model, which is read-only, its tokenizer, and the settings that ``translate`` uses."""

    model: Model
    tokenizer: Tokenizer
    search: TranslationConfig

    def __repr__(self) -> str:
        return repr(self.model)

    def translate(
        self,
        lines: str | Sequence[str],
        n_best: int = 1,
        *,
        return_scores: bool = False,
        return_attention: bool = False,
        **search: Any,
    ) -> Any:
        """The translation of each line, or of one line given as a string; with n_best above 1, a list for each line.

        A translation is a string, or a `Translation` if scores or attention are requested.

        search: settings of [translation], such as ``beam_size=1``, in place of the checkpoint's

        Raises: as `search_lines`.
        """
        if isinstance(lines, str):
            search |= {"return_scores": return_scores, "return_attention": return_attention}
            return self.translate([lines], n_best, **search)[0]
        lines = list(check_lines(lines, "translate"))
        found = search_lines(self.model, self.tokenizer, lines, replace(self.search, **search), n_best)
        flags = return_scores, return_attention
        results = [[self._result(line, each, *flags) for each in best] for line, best in zip(lines, found, strict=True)]
        return results if n_best > 1 else [best[0] for best in results]

    def _result(self, line: str, found: Hypothesis, with_score: bool, with_attention: bool) -> str | Translation:
        text = hypothesis_text(self.tokenizer, found)
        if not with_attention:
            return Translation(text, found.score) if with_score else text
        source = self.tokenizer.encode(line) if line.strip() else []
        subwords = self.tokenizer.subwords([*source, EOS]), self.tokenizer.target.subwords([*found.ids, EOS])
        return Translation(text, found.score, hypothesis_attention(self.model, source, found.ids), *subwords)

    def generate(self, prompts: str | Sequence[str], **options: Any) -> Any:
        """Each prompt, or one given as a string, with a continuation sampled from the language model.

        options: max_tokens, temperature, top_k, top_p and seed of `sample`

        Raises: as `sample`; ConfigError if the model is not a language model.
        """
        if isinstance(prompts, str):
            return self.generate([prompts], **options)[0]
        if not self.model.is_decoder_only:
            raise ConfigError(f"generate: the model must be a language model, got a {type(self.model).__name__}")
        ids = self.tokenizer.encode_lines(prompts)
        found = sample(self.model, pad_rows(ids, last=EOS), **options) if ids else []
        return [self.tokenizer.decode(prompt + more) for prompt, more in zip(ids, found, strict=True)]

    def evaluate(self, lines: Sequence[str], references: Sequence[str], **search: Any) -> Score:
        """sacreBLEU's BLEU of the translations; ``search`` as in `translate`."""
        return corpus_bleu(self.translate(lines, **search), references)


def load(name: str | Path, device: str = "auto") -> Pipeline:
    """The model of a checkpoint, of the newest one of a run, or of a name in `MODELS` (a Path is never a name).

    device: cpu, cuda, or auto: the GPU if one is usable

    Raises:
        CheckpointError: there is none, it is damaged, or it contains no tokenizer.
        BackendError: the device is not usable.
    """
    checkpoint = load_checkpoint(find_checkpoint(name), with_optimizer=False)
    return Pipeline(*build_with_tokenizer(checkpoint, device), checkpoint.config.translation)


def find_checkpoint(name: str | Path) -> Path:
    """The file that `load` reads; a Path is never a name. CheckpointError if it is neither a path nor a known name."""
    if isinstance(name, str) and name in MODELS:
        return _shipped(name)
    path = Path(name)
    if os.path.isdir(path):  # unlike Path's, it never raises: a name may be too long, a folder unreadable
        path = (RunFolder(path).paths() or [path / "checkpoints" / "update_*.npz"])[-1]
    if not path.suffix and not os.path.exists(path):
        names = f"a known name ({', '.join(MODELS)})"
        rest = f", the folder of a run or {names}" if isinstance(name, str) else f" or a run; --model takes {names}"
        raise CheckpointError(f"load: {name} must be a checkpoint{rest}")
    return path


def _shipped(name: str) -> Path:
    """models/NAME.npz of the checkout, or of the working directory where the package is installed without one."""
    file = Path("models") / f"{name}.npz"
    path = next((path for path in (CHECKOUT / file, file) if path.is_file()), None)
    if path is None:
        raise CheckpointError(
            f"load: {name} is in a checkout of this project and not in an installed package; copy {file} from there to "
            f"{file.absolute()}"
        )
    if file_hash(path) != MODELS[name]:
        raise CheckpointError(f"load: {path} must have the SHA-256 {MODELS[name]}; copy the file again from a checkout")
    return path


def build_with_tokenizer(checkpoint: Checkpoint, device: str) -> tuple[Model, Tokenizer]:
    """The model of a checkpoint, read-only, and its tokenizer; CheckpointError if it contains none."""
    model, tokenizer = checkpoint.build(device)
    model.prepare_for_inference()
    if tokenizer is None:
        raise CheckpointError(
            f"{checkpoint.path or 'the mean'} must contain a tokenizer, got a model that was trained on ids only; "
            "minitransformer.checkpoints.load_model loads it"
        )
    return model, tokenizer

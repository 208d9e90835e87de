"""Loss, perplexity and BLEU on held-out text."""

from collections.abc import Iterable
from dataclasses import replace

from minitransformer.autograd import no_grad
from minitransformer.config import Config
from minitransformer.errors import ConfigError, DataError
from minitransformer.evaluation import corpus_bleu, require_sacrebleu
from minitransformer.generation import translate_lines
from minitransformer.models import Model, model_class
from minitransformer.text import Batch, BatchStream
from minitransformer.training.corpus import Corpus
from minitransformer.training.metrics import losses


def evaluate_loss(model: Model, batches: Iterable[Batch]) -> tuple[float, float]:
    """(label-smoothed loss, negative log-likelihood) in nats per target token, without dropout.

    Raises:
        DataError: there is no target token.
    """
    loss = nll = 0.0
    n_tgt_tokens = 0
    with no_grad():
        for batch in batches:
            loss_sum, nll_sum = model.loss(batch)
            loss += loss_sum.item()
            nll += nll_sum.item()
            n_tgt_tokens += batch.n_tgt_tokens
    if n_tgt_tokens == 0:
        raise DataError("evaluate_loss: the batches must have at least one target token, got none")
    return loss / n_tgt_tokens, nll / n_tgt_tokens


class Validation:
    """Loss, perplexity and, if ``training.validate_bleu``, BLEU of greedy translations of the validation text.

    Raises:
        ConfigError: BLEU is asked for and the corpus is ids without a tokenizer, or the model is a language model.
        MissingPackageError: BLEU is asked for and sacrebleu is not installed; raised now, not hours later.
    """

    def __init__(self, corpus: Corpus, config: Config):
        self.corpus, self.with_bleu = corpus, config.training.validate_bleu
        longest = max(len(ids) + 1 for side in corpus.valid for ids in side)
        src_tokens, tgt_tokens = max(config.data.src_tokens, longest), max(config.data.tgt_tokens, longest)
        stream = BatchStream(*corpus.valid, src_tokens=src_tokens, tgt_tokens=tgt_tokens, seed=0)
        self.batches = [stream.batch(number) for number in range(stream.batches_per_epoch)]
        if self.with_bleu:
            if corpus.tokenizer is None or corpus.valid_lines is None:
                raise ConfigError(
                    "training.validate_bleu must be false for a corpus of ids, got true; make the corpus from lines"
                )
            if model_class(config.model).is_decoder_only:
                raise ConfigError(
                    "training.validate_bleu must be false for a language model, which does not translate, got true"
                )
            require_sacrebleu()
            limit = max(config.translation.max_input_length, longest)  # no line of the validation text is too long
            self.translation = replace(config.translation, beam_size=1, max_input_length=limit)

    @classmethod
    def if_wanted(cls, corpus: Corpus, config: Config) -> "Validation | None":
        """The validation of a run; None where there is nothing to validate on, or ``training.validate_every`` is 0.

        Raises:
            ConfigError: BLEU is asked for and there is no validation; also what ``Validation`` raises.
        """
        if corpus.valid and config.training.validate_every:
            return cls(corpus, config)
        if config.training.validate_bleu:
            lacking = "training.validate_every = 0" if corpus.valid else "no validation text"
            remedy = "set it above 0" if corpus.valid else "name data.valid_src and data.valid_tgt"
            raise ConfigError(
                f"training.validate_bleu must be false without validation, got true and {lacking}; {remedy}"
            )
        return None

    def measure(self, model: Model) -> dict:
        """``loss``, ``nll``, ``ppl`` in nats per target token, and ``bleu`` with its ``signature``."""
        values = losses(*evaluate_loss(model, self.batches))
        if self.with_bleu:
            src_lines, references = self.corpus.valid_lines
            hypotheses = translate_lines(model, self.corpus.tokenizer, src_lines, self.translation)
            bleu = corpus_bleu(hypotheses, references)
            values |= {"bleu": bleu.score, "signature": bleu.signature}
        return values

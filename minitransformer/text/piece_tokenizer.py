"""The vocabulary of an imported model: pieces of SentencePiece, with one unigram model for each side."""

import base64
import binascii
import json
import re
from collections.abc import Iterable, Sequence
from itertools import chain

from minitransformer.config import UNK
from minitransformer.errors import DataError, printable
from minitransformer.text.sentencepiece import LONGEST_PIECE, SPACE, UnigramModel
from minitransformer.text.tokenizer import SPECIALS, Tokenizer

MARK = "minitransformer pieces\n"
"""Begins the text of such a vocabulary; JSON follows."""
CODE = re.compile(">>.+?<<")
"""The language to translate into, at the start of a line, for a model of several; no SentencePiece model has it."""


class PieceTokenizer(Tokenizer):
    """Lines of the source to ids, ids of the target to lines; ``target`` encodes lines of the target.

    models: the bytes of the ``.spm`` files of the source and of the target
    pieces: of both sides, in the order of their ids after the special ones

    Raises:
        DataError: a model or a list of pieces is not valid.
    """

    mode = "pieces"

    def __init__(self, models: Sequence[bytes], pieces: Sequence[list[str]], side: int = 0, where: str = "tokenizer"):
        self.models, self.pieces, self.where = models, pieces, where
        self._unigrams = UnigramModel(models[side], where)
        self._ids = {piece: number for number, piece in enumerate(pieces[side], len(SPECIALS))}
        self.symbols = pieces[1]
        self.longest_symbol = max(self._unigrams.longest, *map(len, filter(CODE.fullmatch, pieces[side])), 1)
        self._side, self._target = side, self if side else None

    @property
    def target(self) -> "PieceTokenizer":
        """The same vocabulary as an encoder of target lines."""
        self._target = self._target or PieceTokenizer(self.models, self.pieces, 1, self.where)
        return self._target

    @property
    def src_vocab_size(self) -> int:
        """Number of ids of a separate source vocabulary; 0: both sides share one."""
        return 0 if self.pieces[0] == self.pieces[1] else len(self.pieces[0]) + len(SPECIALS)

    def encode(self, line: str) -> list[int]:
        """The ids of a line, without EOS; a piece that is not in the vocabulary becomes UNK.

        A code such as ``>>fra<<`` at its start is one token, if it is in the vocabulary.
        """
        found = CODE.match(line)
        code = found[0] if found and found[0] in self._ids else ""
        pieces = self._unigrams.encode(line.removeprefix(code))
        return [self._ids.get(piece, UNK) for piece in ([code, *pieces] if code else pieces)]

    def decode(self, ids: Iterable[int]) -> str:
        """The line of these ids of the target; special ids are skipped."""
        text = "".join(piece for piece in map(self._symbol, ids) if piece is not None)
        return text.replace(SPACE, " ").removeprefix(" ")

    def subwords(self, ids: Iterable[int]) -> list[str]:
        """The piece of each id of the side that this encodes, in readable form."""
        names = [*SPECIALS, *self.pieces[self._side]]
        return [printable(names[token], LONGEST_PIECE) for token in ids]

    def dumps(self) -> str:
        models = [base64.b64encode(model).decode() for model in self.models]
        return MARK + json.dumps({"models": models, "pieces": self.pieces}, ensure_ascii=False)

    @classmethod
    def loads(cls, text: str, where: str = "tokenizer") -> "PieceTokenizer":
        try:
            facts = json.loads(text.removeprefix(MARK))
            models = [base64.b64decode(model, validate=True) for model in facts["models"]]
            pieces = facts["pieces"]
            if [len(models), len(pieces)] != [2, 2] or not all(
                isinstance(side, list) and all(isinstance(piece, str) for piece in side) for side in pieces
            ):
                raise ValueError("it must have two models and two lists of pieces")
            "".join(chain(*pieces)).encode("utf-8")  # half a surrogate pair cannot be written to a file
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, binascii.Error) as error:
            raise DataError(f"{where}: must be a vocabulary of pieces, got a damaged one ({error})") from error
        return cls(models, pieces, where=where)


Tokenizer.other_forms[MARK] = PieceTokenizer.loads

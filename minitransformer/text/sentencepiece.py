"""SentencePiece's unigram models (``.spm``), read without its library: normalize, then Viterbi  [Kudo 2018].

The file is a protobuf message: field 1 holds the pieces, 2 how they were learned, 3 how text is normalized first.
"""

import math
import struct
from collections.abc import Iterator
from itertools import groupby

from minitransformer.errors import DataError

SPACE = "\u2581"
"""Stands for a space in a piece."""
NORMAL, USER_DEFINED, UNIGRAM = 1, 4, 1
"""The two kinds of pieces that text is made of, and the kind of model."""
LARGEST = 1e9
"""Limit of the scores, which are log-probabilities, so that a sum of them is finite in float32."""
LONGEST_TEXT = 1 << 10
"""Maximum bytes of what a file's map replaces, and of the replacement; Unicode's compatibility forms have 33."""
MAX_PIECES, LONGEST_PIECE = 1 << 20, 512
"""The second is the length, in characters, of the longest piece that SentencePiece learns: time grows with it."""
LEAF, OFFSET_SHIFT = 1 << 8, 1 << 9


class UnigramModel:
    """Pieces, each with a score, the logarithm of a probability; a line becomes the pieces with the largest sum.

    data: the bytes of the file   where: its name, for messages

    Raises:
        DataError: not a SentencePiece file, a damaged one, or a model of another kind (BPE) or option (byte fallback).
    """

    def __init__(self, data: bytes, where: str):
        try:
            message = _message(data)
            if len(message.get(1, [])) > MAX_PIECES:
                raise ValueError(f"it has more than {MAX_PIECES} pieces")
            pieces = [_message(each) for each in message.get(1, [])]
            trainer, normalizer = (_message(message.get(field, [b""])[-1]) for field in (2, 3))
            kinds = [each.get(3, [NORMAL])[-1] for each in pieces]
            texts = [each[1][-1].decode("utf-8") for each in pieces]
            scores = [each.get(2, [0.0])[-1] for each in pieces]
            options = [normalizer.get(field, [1])[-1] for field in (3, 4)]
            self.charsmap = CharacterMap(normalizer.get(2, [b""])[-1])
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, struct.error) as error:
            raise DataError(
                f"{where}: must be a SentencePiece model, got a damaged or foreign file ({error})"
            ) from error
        if trainer.get(3, [UNIGRAM])[-1] != UNIGRAM:
            raise DataError(f"{where}: must be a unigram model, got another kind (BPE, words or characters)")
        for field, name in ((35, "byte_fallback"), (24, "treat_whitespace_as_suffix")):
            if trainer.get(field, [0])[-1]:
                raise DataError(f"{where}: must be a model without {name}, got one with it")
        if not all(isinstance(score, float) and abs(score) < LARGEST for score in scores) or NORMAL not in kinds:
            raise DataError(f"{where}: must have pieces with scores within {LARGEST:g}, got none or others")
        self.add_space, self.remove_spaces = map(bool, options)
        self.scores = {t: s for t, s, kind in zip(texts, scores, kinds, strict=True) if kind in (NORMAL, USER_DEFINED)}
        of_normal = [score for score, kind in zip(scores, kinds, strict=True) if kind == NORMAL]
        self.unknown_score, best_score = min(of_normal) - 10, max(0.0, *of_normal)  # from 0, as SentencePiece does
        user_defined = {text: text.encode() for text, kind in zip(texts, kinds, strict=True) if kind == USER_DEFINED}
        # Such a piece wins over every other way to spell it.
        self.scores |= {text: len(data) * best_score - 0.1 for text, data in user_defined.items()}
        self.user_defined = set(user_defined.values())
        self.user_lengths = sorted(set(map(len, self.user_defined)), reverse=True)
        self.longest = max(map(len, self.scores))
        if self.longest > LONGEST_PIECE:
            raise DataError(f"{where}: must have pieces of at most {LONGEST_PIECE} characters, got {self.longest}")

    def encode(self, line: str) -> list[str]:
        """The pieces of a line. Adjacent characters that no piece has become one piece, which is not in the file."""
        parts: list[str] = []
        best = best_pieces(self.normalize(line), self.scores, self.unknown_score, self.longest)
        for known, run in groupby(best, key=self.scores.__contains__):
            pieces = list(run)
            parts += pieces if known else ["".join(pieces)]
        return parts

    def normalize(self, line: str) -> str:
        """Characters replaced by the file's map (compatibility forms, for example); one `SPACE` between words, and one
        before the first."""
        out, after_space = [], self.remove_spaces
        for part in self._replaced(line):
            part = part.lstrip(" ") if after_space else part
            out.append(part)
            if part:
                after_space = self.remove_spaces and part.endswith(" ")
        text = f"{' ' if self.add_space and line else ''}{''.join(out)}".replace(" ", SPACE)
        return text.rstrip(SPACE) if self.remove_spaces else text

    def _replaced(self, line: str) -> Iterator[str]:
        data, position = line.encode("utf-8", errors="replace"), 0
        while position < len(data):
            parts = (data[position : position + length] for length in self.user_lengths)
            whole = next((part for part in parts if part in self.user_defined), b"")
            length, replacement = (len(whole), whole) if whole else self.charsmap.longest_match(data, position)
            yield replacement.decode("utf-8", errors="replace")
            position += length


def best_pieces(text: str, scores: dict[str, float], unknown_score: float, longest: int) -> list[str]:
    """The pieces that make up ``text`` and have the largest sum of scores, by Viterbi      [Kudo 2018, sec. 3.2]

    best[end] = max over start of best[start] + score(text[start:end]), where no piece is longer than ``longest``. A
    character that is not a piece stands alone, with ``unknown_score``.
    """
    best = [(0.0, 0)]  # for each place: the largest sum that reaches it, and where the last piece of that path starts
    for end in range(1, len(text) + 1):
        best.append((-math.inf, 0))
        for start in range(max(end - longest, 0), end):
            score = scores.get(text[start:end], unknown_score if end - start == 1 else None)
            if score is not None and (total := _float32(best[start][0] + score)) > best[end][0]:
                best[end] = total, start
    pieces, end = [], len(text)
    while end > 0:
        start = best[end][1]
        pieces.append(text[start:end])
        end = start
    return pieces[::-1]


class CharacterMap:
    """Replacements of the longest matching characters: a double-array trie of bytes, then the replacements' text.

    A unit of the trie is 32 bits: the byte that leads to it, where its children begin, and whether it ends a match.
    """

    def __init__(self, data: bytes):
        size = struct.unpack_from("<I", data)[0] if data else 0
        if size % 4 or size > max(len(data) - 4, 0):
            raise ValueError("its character map is cut short")
        self.units = struct.unpack_from(f"<{size // 4}I", data, 4) if data else ()
        self.texts = data[4 + size :]
        if max(map(len, self.texts.split(b"\0"))) > LONGEST_TEXT:
            raise ValueError("its character map has a replacement that makes any line too long")

    def longest_match(self, data: bytes, start: int) -> tuple[int, bytes]:
        """(bytes taken, replacement) at ``start``; a character that the map does not have stands for itself."""
        found = None
        if self.units:
            node = _children(self.units[0])
            for end in range(start, min(start + LONGEST_TEXT, len(data))):
                node ^= data[end]
                unit = self.units[node] if node < len(self.units) else 0
                if unit & 0x800000FF != data[end]:
                    break
                node ^= _children(unit)
                if unit & LEAF and node < len(self.units):
                    found = end + 1 - start, self.units[node] & 0x7FFFFFFF
        if found is None:
            end = start + 1
            while end < len(data) and data[end] & 0xC0 == 0x80:  # the rest of a UTF-8 character
                end += 1
            return end - start, data[start:end]
        length, place = found
        return length, self.texts[place : max(self.texts.find(b"\0", place), place)]


def _children(unit: int) -> int:
    return (unit >> 10) << ((unit & OFFSET_SHIFT) >> 6)


def _float32(value: float) -> float:
    """Rounded to float32, as in SentencePiece's sums, so that nearly equal sums are ranked as it ranks them."""
    return struct.unpack("f", struct.pack("f", value))[0]


def _message(data: bytes) -> dict[int, list]:
    """The fields of a protobuf message by number: integers, float32 numbers, or the bytes of texts and messages."""
    fields: dict[int, list] = {}
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        kind = key & 7
        if kind == 0:
            value, position = _varint(data, position)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, position = struct.unpack_from("<d" if kind == 1 else "<f", data, position)[0], position + size
        elif kind == 2:
            size, position = _varint(data, position)
            if size > len(data) - position:
                raise ValueError("a field is longer than the file")
            value, position = data[position : position + size], position + size
        else:
            raise ValueError(f"wire type {kind}")
        fields.setdefault(key >> 3, []).append(value)
    return fields


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """(an integer of 7 bits per byte, low ones first, the position after it)"""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return value, position
    raise ValueError("an integer has more than ten bytes")

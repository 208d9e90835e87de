"""Between the page and one_file.py: settings, updates, and what is drawn. Runs in the page's worker."""

import json
import sys

import numpy as np
import one_file

N_TEST, N_SHOWN = 100, 3


class Run:
    """One training with ``settings``, names of one_file's sizes and their values. Answers are JSON."""

    def __init__(self, settings: str, seed: int = 1):
        for name, value in json.loads(settings).items():
            setattr(one_file, name, value)
        self._updates = one_file.train(sys.maxsize, seed)
        self._src, _, self._wanted = one_file.draw_examples(np.random.default_rng(2), N_TEST, one_file.longest)
        self.parameters = None

    def advance(self, updates: int) -> str:
        """The losses of the next updates."""
        losses = []
        for _ in range(updates):
            _, loss, self.parameters = next(self._updates)
            losses.append(float(loss))
        return json.dumps(losses)

    def advance_traced(self) -> str:
        """One update: its loss, and the lines of one_file.py that ran, in their order."""
        lines: list[int] = []

        def trace(frame, event, _):
            if frame.f_code.co_filename != one_file.__file__:
                return None
            if event == "line" and lines[-1:] != [frame.f_lineno]:
                lines.append(frame.f_lineno)
            return trace

        sys.settrace(trace)
        try:
            losses = self.advance(1)
        finally:
            sys.settrace(None)
        return json.dumps({"losses": json.loads(losses), "lines": lines})

    def show(self) -> str:
        """How many of 100 new sequences are reversed, the first of them, and the attention for the first one."""
        outputs = one_file.greedy(self._src, self.parameters)
        texts = [list(map(one_file.text, rows)) for rows in (self._src, outputs, self._wanted)]
        pairs = list(zip(*texts, strict=True))
        right = sum(output == wanted for _, output, wanted in pairs)
        return json.dumps({"right": right, "pairs": pairs[:N_SHOWN], "attention": self._attention(pairs[0])})

    def reverse(self, digits: str) -> str:
        src = np.array([[one_file.ZERO + int(digit) for digit in digits] + [one_file.EOS]])
        return one_file.text(one_file.greedy(src, self.parameters)[0])

    def _attention(self, pair: tuple[str, str, str]) -> dict:
        """Weights of the last layer's cross-attention while the wanted digits are given: (head, output, input)"""
        source, _, wanted = pair
        memory, mask, _ = one_file.encode(self._src[:1], self.parameters)
        tgt = np.c_[[[one_file.BOS]], self._wanted[:1, :-1]]
        _, saved = one_file.decode(tgt, memory, mask, self.parameters)
        saved_attention = saved[one_file.N - 1][2][-1]
        weights = saved_attention[3][0].round(3).tolist()
        return {"weights": weights, "columns": [*source, "end"], "rows": [*wanted, "end"]}

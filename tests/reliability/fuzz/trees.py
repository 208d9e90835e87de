"""What is fed to the readers of trees: treebanks, and the output of a parser with its sentences."""

import gzip
from argparse import Namespace
from pathlib import Path
from random import Random

from examples.parsing.__main__ import run_linearise, run_restore
from examples.parsing.bracketing import corpus_bracket_score
from examples.parsing.linear_trees import delinearise, linearise
from examples.parsing.trees import bare_tree, escape_brackets, read_trees, words_of
from minitransformer.text.corpus import stream_lines

from .mutations import changed
from .worker import Reader


class Trees(Reader):
    """An accepted treebank survives being written, and its linear form gives the same constituents. Any output of a
    parser gives a tree over exactly the words, which can be read again, and whose linear form needs no repair."""

    name = "trees"
    TREEBANKS = (
        b"( (S (NP-SBJ-1 (PRP It))\n     (VP (VBZ is) (VP (VBN said) (NP (-NONE- *-1)))) (. .)) )\r\n( (NN Yes) )\n",
        b"(TOP (S (NP=2 (DT the) (NML (NN cat))) (PRT (RP up)) (`` ``) (: --)))\n"
        b"(NP (-LRB- -LRB-) (CD 1/2) (X \xe2\x80\xa8))",
    )
    SENTENCES = (b"the cat sleeps .\nrain -LRB- snow -RRB-\n", b"It is ( 10\xc2\xa0000 )\ta\n")
    OUTPUTS = (
        b"(S (NP XX XX )NP (VP XX )VP XX )S\n(NP XX XX XX XX )NP\n",
        b"(S (NP XX )NP (VP XX\n\n(NP(NP )X XX XX XX XX)NP\n",
    )

    def write(self, rng: Random, folder: Path) -> None:
        if rng.random() < 0.5:
            treebank, suffix = changed(rng, self.TREEBANKS), rng.choice(("", "", ".gz"))
            (folder / f"trees.mrg{suffix}").write_bytes(gzip.compress(treebank, 1) if suffix else treebank)
        else:
            (folder / "words").write_bytes(changed(rng, self.SENTENCES))
            (folder / "linear").write_bytes(changed(rng, self.OUTPUTS))

    def read(self, folder: Path) -> None:
        treebank, words, linear, restored = (folder / name for name in ("bare.mrg", "words", "linear", "restored.mrg"))
        if words.exists():
            run_restore(Namespace(words=words, linear=linear, output=restored))
            for tree, sentence in zip(read_trees(restored), stream_lines(words), strict=True):
                assert tree.words() == [escape_brackets(word) for word in words_of(sentence)]
                assert delinearise(linearise(tree, with_tags=True), tree.words()) == tree
            return
        trees = list(read_trees(next(folder.glob("trees.mrg*"))))
        treebank.write_text("\n".join(map(str, trees)), encoding="utf-8")
        assert list(read_trees(treebank)) == trees
        run_linearise(Namespace(trees=[treebank], output=[words, linear], with_tags=False))
        run_restore(Namespace(words=words, linear=linear, output=restored))
        bare = list(filter(None, map(bare_tree, trees)))
        assert [linearise(tree) for tree in bare] == [linearise(tree) for tree in read_trees(restored)]
        score = corpus_bracket_score(read_trees(restored), bare)
        assert score.skipped == 0 and score.matched == score.predicted == score.reference

"""Exercise of lesson 19: which tokens may follow, so that the output is one tree over exactly the sentence's words."""

from course.exercise import Exercise, Mistake
from course.exercises.tree_forms import CHAIN, IT_RAINS, LABELS, TAGS, random_tree, words_of
from solutions.lesson_19 import allowed, linearize

KINDS = [*(f"({label}" for label in LABELS), *(f"){label}" for label in LABELS), *TAGS, "END"]


def allowed_inputs(rng):
    yield [], 2, KINDS, 9
    yield ["(S", "(NP", "(NP"], 2, KINDS, 3
    yield ["(S", "(NP", "NN", ")NP", "(VP"], 2, KINDS, 3
    for tree in (IT_RAINS, CHAIN, random_tree(rng), random_tree(rng)):
        tokens = linearize(tree)
        for n_written in range(1, len(tokens) + 1):
            yield tokens[:n_written], len(words_of(tree)), KINDS, 9


def conditions(kind, tokens, n_words, deepest):
    """What must hold for ``kind`` to follow, by name."""
    opened, left = [], n_words
    for token in tokens:
        if token[0] == "(":
            opened.append(token[1:])
        elif token[0] == ")":
            opened.pop()
        else:
            left -= 1
    if kind == "END":
        return {"begun": bool(tokens), "closed": not opened}
    if kind[0] == "(":
        return {"word left": left > 0, "depth": len(opened) < deepest}
    if kind[0] == ")":
        holds_something = bool(tokens) and tokens[-1][0] != "("
        return {
            "something open": bool(opened),
            "label": opened[-1:] == [kind[1:]],
            "no empty bracket": holds_something,
            "all words": len(opened) > 1 or left == 0,
        }
    return {"inside": bool(opened), "no tag too many": left > 0}


def forgetting(name, message):
    """The mistake that leaves out the condition of this name."""

    def wrong(tokens, n_words, kinds, deepest):
        found = (conditions(kind, tokens, n_words, deepest) for kind in kinds)
        return [all(holds for each, holds in every.items() if each != name) for every in found]

    return Mistake(message, wrong)


def ending_never(tokens, n_words, kinds, deepest):
    return [may and kind != "END" for kind, may in zip(kinds, allowed(tokens, n_words, kinds, deepest), strict=True)]


def kind_by_kind(function, *inputs):
    """The first kind that is judged wrongly."""
    tokens, n_words, kinds, deepest = inputs
    for kind, answer, right in zip(kinds, function(*inputs), allowed(*inputs), strict=True):
        if answer != right:
            place = f"follow {' '.join(tokens)}" if tokens else "come first"
            may = "may" if right else "must not"
            return f"With n_words = {n_words} and deepest = {deepest}, {kind} {may} {place}."
    return None


ALLOWED = Exercise(
    "19_parsing.allowed",
    allowed_inputs,
    reference=allowed,
    tested="the beginnings of four trees, the empty one, and two at or near the depth limit",
    mistakes=(
        forgetting(
            "no empty bracket",
            "A bracket that holds nothing may close, such as )NP right after (NP: a constituent has a word.",
        ),
        forgetting("all words", "The outermost bracket may close before the last word: the tree has too few words."),
        forgetting("word left", "A bracket may open although no word is left for it: it can never close."),
        forgetting("no tag too many", "There may be more tags than words; a tag needs a word."),
        forgetting("label", "Any bracket may close; only the innermost open one may."),
        forgetting("depth", "More than `deepest` brackets may be open: another may open only while fewer are."),
        forgetting("inside", "A tag may stand outside all brackets: the tree's root is a constituent."),
        forgetting("closed", "END may come while brackets are open; it comes when all are closed."),
        forgetting("begun", "END may come first: then there is no tree."),
        Mistake("The output can never end: END follows when all brackets are closed.", ending_never),
    ),
    properties=(kind_by_kind,),
)

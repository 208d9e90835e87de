"""Exercises of lesson 19: a tree as a list of tokens, and back; its constituents; one token for each word."""

from course.exercise import Exercise, Mistake
from solutions.lesson_19 import aligned, constituents, delinearize, linearize

IT_RAINS = ("S", ("NP", ("PRP", "it")), ("VP", ("VBZ", "rains")))
CHAIN = ("S", ("VP", ("VP", ("VB", "go"), ("ADVP", ("RB", "home")))))
LABELS, TAGS, WORDS = "S NP VP PP".split(), "NN VB IN DT".split(), "old saw duck light watch that fell".split()


def random_tree(rng, depth=0):
    """A constituent of one to three parts; a constituent may hold another alone, also of its own label."""
    n_parts, label = int(rng.integers(1, 4)), str(rng.choice(LABELS))
    return (label, *(random_part(rng, depth + 1) for _ in range(n_parts)))


def random_part(rng, depth):
    if depth < 4 and rng.random() < 0.5:
        return random_tree(rng, depth)
    return str(rng.choice(TAGS)), str(rng.choice(WORDS))


def is_word(tree):
    return isinstance(tree[1], str)


def words_of(tree):
    return [tree[1]] if is_word(tree) else [word for part in tree[1:] for word in words_of(part)]


def changed(tree, constituent=lambda label, parts: (label, *parts), word=lambda tag, text: (tag, text)):
    """``tree`` with all its constituents and words made anew, the inner ones first."""
    if is_word(tree):
        return word(*tree)
    return constituent(tree[0], [changed(part, constituent, word) for part in tree[1:]])


def tree_inputs(rng):
    yield (IT_RAINS,)
    yield (CHAIN,)
    for _ in range(5):
        yield (random_tree(rng),)


LINEARIZE = Exercise(
    "19_parsing.linearize",
    tree_inputs,
    reference=linearize,
    tested="seven trees, with constituents that hold one other",
    mistakes=(
        Mistake(
            "The words are written. The form has their tags: the words stand in the sentence already.",
            lambda tree: linearize(changed(tree, word=lambda _, text: (text, text))),
        ),
        Mistake(
            "The label is missing after the closing brackets: write )NP, not a bare bracket.",
            lambda tree: [")" if token[0] == ")" else token for token in linearize(tree)],
        ),
        Mistake(
            "Tags have brackets of their own. A word's tag stands alone: it is one token.",
            lambda tree: [
                each
                for token in linearize(tree)
                for each in ([token] if token[0] in "()" else [f"({token}", f"){token}"])
            ],
        ),
        Mistake("The outermost bracket is missing: the root is a constituent too.", lambda tree: linearize(tree)[1:-1]),
    ),
)


def delinearize_inputs(rng):
    for (tree,) in tree_inputs(rng):
        yield linearize(tree), words_of(tree)


DELINEARIZE = Exercise(
    "19_parsing.delinearize",
    delinearize_inputs,
    reference=delinearize,
    tested="seven linear forms and their words",
    mistakes=(
        Mistake(
            "The words are taken from the end. The first tag belongs to the first word.",
            lambda tokens, words: delinearize(tokens, words[::-1]),
        ),
        Mistake(
            "A word is a pair of its tag and itself, in this order, as a label stands before its parts.",
            lambda tokens, words: changed(delinearize(tokens, words), word=lambda tag, text: (text, tag)),
        ),
        Mistake(
            "The parts of each constituent are in reverse order: append each after those before it.",
            lambda tokens, words: changed(
                delinearize(tokens, words), constituent=lambda label, parts: (label, *parts[::-1])
            ),
        ),
        Mistake(
            "The labels still have their bracket: the label of (NP is NP.",
            lambda tokens, words: changed(
                delinearize(tokens, words), constituent=lambda label, parts: (f"({label}", *parts)
            ),
        ),
        Mistake(
            "The tree is within one more pair of brackets. What the outermost level holds, its one part, is the tree.",
            lambda tokens, words: (delinearize(tokens, words),),
        ),
    ),
)


def tags_too(tree):
    return constituents(changed(tree, word=lambda tag, text: (tag, (tag, text))))


CONSTITUENTS = Exercise(
    "19_parsing.constituents",
    tree_inputs,
    reference=constituents,
    tested="seven trees, with constituents of the same words within each other",
    mistakes=(
        Mistake(
            "The end is the last word's number; it should be the number of the word after it, as in Python's slices.",
            lambda tree: [(label, first, end - 1) for label, first, end in constituents(tree)],
        ),
        Mistake("Words are no constituents: leave their tags out.", tags_too),
        Mistake(
            "The order is that of the closing brackets; take that of the opening ones, outer first.",
            lambda tree: sorted(constituents(tree)[::-1], key=lambda each: (each[2], -each[1])),
        ),
        Mistake(
            "The words are counted from the first of each constituent; count from the sentence's first.",
            lambda tree: [(label, 0, end - first) for label, first, end in constituents(tree)],
        ),
        Mistake(
            "Of several constituents over the same words with one label only one is left: each of them counts.",
            lambda tree: list(dict.fromkeys(constituents(tree))),
        ),
    ),
)


def aligned_by(tree, *, tag="({})", closing=lambda label: ")", ahead=False, root=True):
    """The aligned form with what each mistake changes."""
    written, opening, behind = [], "", ""
    for token in linearize(tree) if root else linearize(tree)[1:-1]:
        if token[0] == "(":
            opening += token
        elif token[0] == ")" and ahead:
            behind += ")"
        elif token[0] == ")":
            written[-1] += closing(token[1:])
        else:
            written.append(behind + opening + tag.format(token))
            opening = behind = ""
    return [*written[:-1], written[-1] + behind]


ALIGNED = Exercise(
    "19_parsing.aligned",
    tree_inputs,
    reference=aligned,
    tested="seven trees, with constituents that hold one other",
    mistakes=(
        Mistake(
            "Closing brackets stand before the next word; they belong after the word that ends the constituent.",
            lambda tree: aligned_by(tree, ahead=True),
        ),
        Mistake(
            "Closing brackets have labels. Which bracket closes is clear without them: the innermost.",
            lambda tree: aligned_by(tree, closing=lambda label: f"){label}"),
        ),
        Mistake(
            "The tag lacks brackets of its own: without them (NP and PRP run into one name.",
            lambda tree: aligned_by(tree, tag="{}"),
        ),
        Mistake(
            "The outermost bracket is missing: the root is a constituent too.",
            lambda tree: aligned_by(tree, root=False),
        ),
    ),
)

"""Planted faults of lesson 19: for each exercise, words that the message must hold and the wrong function."""

from collections import Counter

from lesson_faults.altered import with_result

from solutions import lesson_19 as right


def counted_once(trees, references):
    found, expected = (
        [set(right.constituents(tree)) if tree else set() for tree in side] for side in (trees, references)
    )
    n_matched = sum(len(ours & theirs) for ours, theirs in zip(found, expected, strict=True))
    return 200 * n_matched / (sum(map(len, found)) + sum(map(len, expected)))


def inner_first(tree, first=0):
    found, end = [], first
    for part in tree[1:]:
        inner = [] if isinstance(part[1], str) else inner_first(part, end)
        found, end = found + inner, inner[-1][2] if inner else end + 1
    return [*found, (tree[0], first, end)]


def across_sentences(trees, references):
    found, expected = (
        Counter(each for tree in side if tree for each in right.constituents(tree)) for side in (trees, references)
    )
    return 200 * (found & expected).total() / (found.total() + expected.total())


FAULTS = {
    "linearize": {
        "label is missing": 'f"){label}"] -> ")"]',
        "The words are written": "return [label] -> return [parts[0]]",
        "outermost bracket": with_result(right.linearize, lambda tokens: tokens[1:-1]),
        "must be a list": with_result(right.linearize, " ".join),
        "['(S', ['(NP', ['PRP'],": "(token for part in parts for token in linearize(part)) -> map(linearize, parts)",
    },
    "delinearize": {
        "from the end": "iter(words) -> iter(reversed(words))",
        "a pair of its tag": "(token, next(words)) -> (next(words), token)",
        "in reverse order": (
            "stack[-1].append(done) -> stack[-1].insert(1, done)",
            "stack[-1].append((token -> stack[-1].insert(1, (token",
        ),
        "still have their bracket": "[token[1:]] -> [token]",
        "one more pair": "return stack[0][0] -> return tuple(stack[0])",
    },
    "constituents": {
        "last word's number": "(*found[number][:2], n_words) -> (*found[number][:2], n_words - 1)",
        "closing brackets": inner_first,
        "from the first of each": with_result(
            right.constituents, lambda found: [(label, 0, end - first) for label, first, end in found]
        ),
        "only one is left": with_result(right.constituents, lambda found: sorted(set(found), key=found.index)),
    },
    "f1": {
        "mean of the sentences' F1": lambda trees, references: (
            sum(right.f1([tree], [reference]) for tree, reference in zip(trees, references, strict=True)) / len(trees)
        ),
        "each should": counted_once,
        "of different sentences": across_sentences,
        "precision alone": "2 * matched / (predicted + expected) -> matched / max(1, predicted)",
        "recall alone": "2 * matched / (predicted + expected) -> matched / expected",
        "without a tree is left out": "expected += -> expected += bool(tree) *",
    },
    "allowed": {
        "holds nothing": ' and not tokens[-1].startswith("(") -> ',
        "too few words": " and (len(opened) > 1 or left == 0) -> ",
        "can never close": "left > 0 and len(opened) < deepest -> len(opened) < deepest",
        "more tags than words": "bool(opened) and left > 0 -> bool(opened)",
        "`deepest`": "left > 0 and len(opened) < deepest -> left > 0",
        "may follow (S (NP NN )NP (VP.": "len(opened) < deepest -> sum(token[0] == '(' for token in tokens) < deepest",
        "deepest = 3, (S may follow": "len(opened) < deepest -> len(opened) < deepest - 1",
        ")S must not follow (S (NP PRP.": "opened[-1] == kind[1:] -> kind[1:] in opened",
        "outside all brackets": "bool(opened) and left > 0 -> left > 0",
        "END may come first": "bool(tokens) and not opened -> not opened",
        "never end": "bool(tokens) and not opened -> False",
    },
    "aligned": {
        "have labels": 'written[-1] += ")" -> written[-1] += token',
        "lacks brackets of its own": 'f"{opening}({token})" -> opening + token',
        "root is a constituent too": "in linearize(tree): -> in linearize(tree)[1:-1]:",
    },
}

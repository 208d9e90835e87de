"""Solutions of lesson 19, parsing."""

from collections import Counter


def linearize(tree):
    label, *parts = tree
    if isinstance(parts[0], str):
        return [label]
    return [f"({label}", *(token for part in parts for token in linearize(part)), f"){label}"]


def delinearize(tokens, words):
    words, stack = iter(words), [[]]
    for token in tokens:
        if token.startswith("("):
            stack.append([token[1:]])
        elif token.startswith(")"):
            done = tuple(stack.pop())
            stack[-1].append(done)
        else:
            stack[-1].append((token, next(words)))
    return stack[0][0]


def constituents(tree):
    found, opened, n_words = [], [], 0
    for token in linearize(tree):
        if token.startswith("("):
            opened.append(len(found))
            found.append((token[1:], n_words, None))
        elif token.startswith(")"):
            number = opened.pop()
            found[number] = (*found[number][:2], n_words)
        else:
            n_words += 1
    return found


def f1(trees, references):
    matched = predicted = expected = 0
    for tree, reference in zip(trees, references, strict=True):
        found, right = Counter(constituents(tree) if tree else []), Counter(constituents(reference))
        matched += (found & right).total()
        predicted += found.total()
        expected += right.total()
    return 100 * 2 * matched / (predicted + expected)


def allowed(tokens, n_words, kinds, deepest):
    opened, left = [], n_words
    for token in tokens:
        if token.startswith("("):
            opened.append(token[1:])
        elif token.startswith(")"):
            opened.pop()
        else:
            left -= 1
    may = []
    for kind in kinds:
        if kind == "END":
            may.append(bool(tokens) and not opened)
        elif kind.startswith("("):
            may.append(left > 0 and len(opened) < deepest)
        elif kind.startswith(")"):
            is_innermost = bool(opened) and opened[-1] == kind[1:] and not tokens[-1].startswith("(")
            may.append(is_innermost and (len(opened) > 1 or left == 0))
        else:
            may.append(bool(opened) and left > 0)
    return may


def aligned(tree):
    written, opening = [], ""
    for token in linearize(tree):
        if token.startswith("("):
            opening += token
        elif token.startswith(")"):
            written[-1] += ")"
        else:
            written.append(f"{opening}({token})")
            opening = ""
    return written

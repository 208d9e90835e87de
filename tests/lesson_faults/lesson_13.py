"""Planted faults of lesson 13: for each exercise, words that the message must hold and the wrong function."""

from lesson_faults.altered import with_result

from solutions import lesson_13 as right

FAULTS = {
    "clipped_counts": {
        "The counts are not clipped": "(ours & theirs).total() -> sum(ours[gram] for gram in theirs)",
        "as in a set. One that stands twice": "(ours & theirs).total(), ours.total() -> len(ours & theirs), len(ours)",
        "but the total by occurrence": "(ours & theirs).total() -> len(ours & theirs)",
        "That is recall": lambda hypothesis, reference, n: right.clipped_counts(reference, hypothesis, n),
        "only at the same place": (
            "(ours & theirs).total() -> sum(hypothesis[i : i + n] == reference[i : i + n] for i in range(ours.total()))"
        ),
        "joined without a space": "tuple(words[i : i + n]) -> ''.join(words[i : i + n])",
        "a total below zero": "theirs).total(), ours.total() -> theirs).total(), 1 + len(hypothesis) - n",
        "must be a tuple of 2, got a number": "theirs).total(), ours.total() -> theirs).total() / max(ours.total(), 1)",
    },
    "brevity_penalty": {
        "the wrong way round": "1 - r / c -> 1 - c / r",
        "gets a bonus": "min(1.0, np.exp(1 - r / c)) -> np.exp(1 - r / c)",
        "the ratio c / r itself": "np.exp(1 - r / c) -> c / r",
        "The shortest reference": "(abs(option - length), option) -> option",
        "The first reference": "(abs(option - length), option) -> 0",
        "the longer is taken": "length), option) -> length), -option)",
        "close the first is taken": "(abs(option - length), option) -> abs(option - length)",
        "close the last is taken": (
            "min(options -> min(options[::-1]",
            "(abs(option - length), option) -> abs(option - length)",
        ),
    },
    "corpus": {
        "takes n-grams away": "count[1] for count in counts -> len(h) - n + 1 for h in hypotheses",
        "The arithmetic mean": (
            "return 0.0 -> continue",
            "np.log(right / total) -> right / total",
            "np.exp(log_mean) -> log_mean",
        ),
        "brevity penalty is missing": "[len(h) for h in hypotheses] -> [9**9] * len(hypotheses)",
        "the wrong way round": (
            "[len(h) for h in hypotheses] -> [len(r) for r in references]",
            "[[len(r)] for r in references] -> [[len(h)] for h in hypotheses]",
        ),
        "from 0 to 1": with_result(right.corpus, lambda bleu: bleu / 100),
        "fourth root is missing": " / 4 -> ",
        "raised ValueError": "return 0.0 -> raise ValueError('math domain error')",
    },
    "split_compounds": {
        "Every hyphen is replaced": lambda line: " ##AT##-##AT## ".join(line.split("-")),
        "marks ##AT## are missing": with_result(right.split_compounds, lambda line: line.replace("##AT##", "")),
        "between the letters a to z": "(\\S)-(\\S) -> (?i)([a-z])-([a-z])",
        "between letters or digits": "(\\S)-(\\S) -> ([^\\W_])-([^\\W_])",
        "Only the first hyphen": ", line) -> , line, count=1)",
        "must be a str, got a list": with_result(right.split_compounds, str.split),
    },
    "bootstrap": {
        "ours must be the higher one": lambda ours, theirs, draws: right.bootstrap(theirs, ours, draws),
        "summed over the draws": lambda ours, theirs, draws: right.bootstrap(ours, theirs, draws.T),
        "A tie is counted as won": lambda ours, theirs, draws: 1 - right.bootstrap(theirs, ours, draws),
        "scores of the sentences are averaged": (
            "ours[draws].sum(axis=1) -> ours)[draws].mean(axis=1",
            "theirs[draws].sum(axis=1) -> theirs)[draws].mean(axis=1",
        ),
        "keeps its whole file": "theirs[draws].sum(axis=1) -> theirs.sum(axis=0)[None]",
        "brevity penalty is missing": "np.minimum(1.0, np.exp(1 - sums[:, 1] / sums[:, 0])) *  -> ",
        "rewards a long file": "np.minimum(1.0, -> np.minimum(np.inf,",
        "The draws are not used": ("ours[draws] -> ours[None]", "theirs[draws] -> theirs[None]"),
    },
}

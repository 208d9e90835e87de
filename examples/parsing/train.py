"""Train a parser on trees in an aligned form, parse with it while it learns, and keep its scores as one line of JSON.

    python -m examples.parsing.train examples/parsing/aligned.toml --form C --set training.seed=1

If it was killed, starting it again resumes from the newest checkpoint. Started with more training.updates, it trains
on. The folder runs/parsing/NAME-SEED has the checkpoints and points.jsonl, the scores during training: those of greedy
parses of the development set. The score of the result is that of the mean of the last training.keep_checkpoints, with
the recipe's beam.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from examples import report_errors
from examples.paper.points import SPARE, learn, mean_of_last, updates_of_mean
from examples.paper.program import read_results
from examples.paper.sweep import append, check_settings, opened_alone
from examples.parsing.bracketing import corpus_bracket_score
from examples.parsing.treebank import FORMS, SEEN, Treebank, trees_of
from examples.parsing.trees import Tree
from examples.parsing.words import RARE, RARE_CLASS, WORD_DROPOUT, WordDropout
from examples.report import machine_facts
from minitransformer.checkpoints.same_run import MAY_CHANGE
from minitransformer.cli.main import Parser
from minitransformer.config import Config
from minitransformer.errors import ConfigError
from minitransformer.models import Model
from minitransformer.training import Corpus, Trainer
from minitransformer.workers import limit_threads

RESULTS = Path(__file__).parent / "results"
NOT_SETTINGS = MAY_CHANGE["training"] - {"save_every", "keep_checkpoints", "init_from"} | {"seed"}
"""Of [training]: what may differ between the results of one file. The mean at the end is of so many checkpoints."""


@report_errors
def main(argv: Sequence[str] | None = None) -> int:
    arguments = build_parser().parse_args(argv)
    config, name = config_of(arguments.config, arguments)
    path = arguments.results or RESULTS / f"{name}.jsonl"
    updates_of_mean(config, config.training.keep_checkpoints)  # refuses too few before the training
    bank, corpus, trees = prepare(arguments.trees, arguments.form, arguments.part)
    config = with_vocabularies(config, bank)
    result = {"name": f"{arguments.part}, {config.training.updates} updates", "seed": config.training.seed}
    result["settings"] = settings_of(config, arguments.form)
    check_results(path, result)
    result["points"] = points_of(config, bank, corpus, trees["dev"])
    mean = mean_of_last(config, config.training.keep_checkpoints)
    result["score"] = scores(config, bank, mean.build()[0], trees[arguments.part], config.translation.beam_size)
    result["machine"] = machine_facts()
    with opened_alone(path) as file:
        check_results(path, result)  # again: the same command may have been started twice
        append(file, result)
    print(json.dumps(result["score"]))
    return 0


def build_parser() -> Parser:
    parser = Parser(prog="python -m examples.parsing.train", description=__doc__.split("\n")[0])
    parser.add_argument("config", type=Path, metavar="CONFIG", help="recipe, such as examples/parsing/aligned.toml")
    add_data_options(parser)
    parser.add_argument("--part", choices=("dev", "test"), default="dev", help="what to score at the end (default dev)")
    parser.add_argument("--results", type=Path, help="default results/NAME.jsonl, NAME being RECIPE-FORM")
    return parser


def add_data_options(parser: Parser) -> None:
    parser.add_argument("--form", choices=FORMS, default="C", help="C: one token for each word (default), B: two")
    shown = "folder of train*.mrg, dev*.mrg and test*.mrg (default data/craft_trees)"
    parser.add_argument("--trees", type=Path, default=Path("data/craft_trees"), help=shown)
    shown = "a key of the recipe and its value, such as training.updates=20000; may be given several times"
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE", help=shown)


def config_of(path: Path, arguments: argparse.Namespace) -> tuple[Config, str]:
    """The recipe and its name, RECIPE-FORM, after which its folder is called unless it has a name."""
    config, name = Config.load(path, arguments.settings), f"{path.stem}-{arguments.form}"
    training = config.training
    if training.directory == type(training).directory:
        training = replace(training, directory=f"runs/parsing/{name}-{training.seed}")
    return replace(config, training=training), name


def prepare(folder: Path, form: str, part: str = "dev") -> tuple[Treebank, Corpus, dict[str, list[Tree]]]:
    """The treebank, its ids, and its trees; prints what the form cannot express."""
    trees = {name: trees_of(folder, name) for name in dict.fromkeys(("train", "dev", part))}
    bank, targets = Treebank(trees["train"], form), {}
    for name, each in trees.items():
        targets[name], changed, lost = bank.express(each)
        print(f"{name}: {len(each)} trees, {changed} changed by the form, {lost} brackets or labels lost")
    through = map(bank.tree, targets["dev"], (tree.words() for tree in trees["dev"]))
    print(f"F1 of the form's own trees, dev: {corpus_bracket_score(through, trees['dev']).f1:.2f}")
    sides = [(bank.sources(trees[name]), targets[name]) for name in ("train", "dev")]
    return bank, Corpus(*sides), trees


def with_vocabularies(config: Config, bank: Treebank) -> Config:
    sizes = {"src_vocab_size": bank.words.n_ids, "vocab_size": bank.grammar.n_ids}
    return replace(config, model=replace(config.model, **sizes))


def settings_of(config: Config, form: str) -> dict:
    """The settings that all results of a file have in common, by name; defaults are left out."""
    found = {"form": form, "rare": [RARE, RARE_CLASS, SEEN], "word_dropout": WORD_DROPOUT}
    tables, by_default = config.to_dict(), Config().to_dict()
    for section in ("model", "data", "training", "translation"):
        for name, value in tables[section].items():
            if value != by_default[section].get(name) and not (section == "training" and name in NOT_SETTINGS):
                found[f"{section}.{name}"] = value
    return found


def check_results(path: Path, result: dict) -> None:
    """ConfigError: the result exists already; DataError: a setting of the file's results, which it names, differs."""
    check_settings(path, result["settings"])
    if (result["name"], result["seed"]) in {other["key"] for other in read_results(path)}:
        raise ConfigError(
            f"{path}: must lack the result that is asked for, got {result['name']}, seed {result['seed']}; train "
            "longer, or delete its line"
        )


def points_of(config: Config, bank: Treebank, corpus: Corpus, dev: Sequence[Tree]) -> list[dict]:
    """Train, and parse the development set after each validation."""
    training = config.training
    every, last = training.validate_every or training.updates, training.updates
    until = sorted({*range(every, last, every), last})
    config = replace(config, training=replace(training, keep_checkpoints=training.keep_checkpoints + SPARE))
    return learn(config, corpus, until, lambda model: scores(config, bank, model, dev, 1), word_dropout(bank))


def word_dropout(bank: Treebank) -> Callable[[Trainer], None]:
    """A function that prepares a Trainer for this treebank."""

    def prepare(trainer: Trainer) -> None:
        trainer.batches = WordDropout(trainer.batches, bank.words)

    return prepare


def scores(config: Config, bank: Treebank, model: Model, gold: Sequence[Tree], beam_size: int) -> dict[str, float]:
    with limit_threads(config.training.threads):
        words = [tree.words() for tree in gold]
        trees = bank.parse(model, words, beam_size, config.translation.batch_tokens)
    score = corpus_bracket_score(trees, gold)
    names = ("f1", "precision", "recall", "exact_match", "tagging_accuracy", "sentences")
    return {name: round(getattr(score, name), 2) for name in names}


if __name__ == "__main__":
    sys.exit(main())

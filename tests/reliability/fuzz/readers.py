"""The table of readers. A new reader of files is one class beside the others and one entry here."""

from . import answers, archives, binarised, checkpoints, records, texts, trees
from .worker import Reader

READERS: dict[str, type[Reader]] = {
    each.name: each
    for each in (
        checkpoints.Checkpoints,
        binarised.BinarisedData,
        archives.Archives,
        answers.Answers,
        *texts.READERS,
        trees.Trees,
        records.Metrics,
    )
}

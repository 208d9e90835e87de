"""The figure of a long run: memory, open files and threads over time, a column for each stage."""

import json
from pathlib import Path

from minitransformer.figures import png_bytes
from minitransformer.figures.canvas import new_figure

TITLES = {"train": "an hour of training", "translate": "100,000 lines translated"}
ROWS = ("resident memory, MB", "open files", "threads")


def draw_stages(folder: Path) -> bytes:
    """A PNG of the results in ``folder``; the second half, which must be flat, is shaded."""
    paths = {stage: folder / f"long_run_{stage}.json" for stage in TITLES}
    stages = {stage: json.loads(path.read_text(encoding="utf-8")) for stage, path in paths.items() if path.is_file()}
    figure = new_figure(5.0 * len(stages), 6.0)
    panels = figure.subplots(3, len(stages), squeeze=False, sharex="col")
    for column, (stage, result) in enumerate(stages.items()):
        seconds, *values = zip(*result["samples: seconds, MB, open files, threads"], strict=True)
        minutes = [each / 60 for each in seconds]
        for row, (axes, label) in enumerate(zip(panels[:, column], ROWS, strict=True)):
            axes.plot(minutes, values[row], "k-", linewidth=1.0)
            axes.axvspan(minutes[-1] / 2, minutes[-1], color="#0072b2", alpha=0.1)
            axes.set_ylim(0, 1.25 * max(values[row]))
            axes.set_ylabel(label)
            axes.yaxis.get_major_locator().set_params(integer=True)
            axes.grid(True, color="#dddddd", linewidth=0.6)
        rise = result["MB in the second half"]
        panels[0][column].set_title(f"{TITLES[stage]}\nmemory in the second half: {rise:+.2f} MB", fontsize=10)
        panels[-1][column].set_xlabel("minutes")
    return png_bytes(figure)

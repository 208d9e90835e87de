"""Draw the results of parsing CRAFT: validation loss of both models while they learn, F1 against sentence length.

python -m examples.parsing.plot_results        from results/craft*.json into results/craft.png
"""

import json
import sys
from pathlib import Path

from examples import report_errors
from examples.paper.program import MAX_RESULTS, showing
from minitransformer.cli.main import Parser
from minitransformer.figures import picture_bytes
from minitransformer.figures.canvas import new_figure
from minitransformer.files import read_bounded, write_atomically

RESULTS = Path(__file__).parent / "results"
MODELS = {"craft": ("Transformer", "#0072b2"), "craft-recurrent": ("recurrent, additive attention", "#d55e00")}


@report_errors
def main() -> int:
    Parser(prog="python -m examples.parsing.plot_results", description=__doc__).parse_args()
    figure = new_figure(11, 4.2)
    left, right = figure.subplots(1, 2)
    for name, (label, color) in MODELS.items():
        path, style = RESULTS / f"{name}.json", {"color": color, "markersize": 4, "label": label}
        with showing(path):
            result = json.loads(read_bounded(path, MAX_RESULTS))
            validations, groups = result["training"]["dev"], result["test by length"]
            left.plot([each["update"] for each in validations], [each["nll"] for each in validations], "o-", **style)
            right.plot([each["words"] for each in groups], [each["f1"] for each in groups], "o-", **style)
    left.set(xlabel="update", ylabel="validation loss, nats/token", ylim=(0, None), title="Training")
    right.set(xlabel="words of the sentence", ylabel="labeled bracket F1, %", ylim=(0, 100), title="Test set")
    for axes in (left, right):
        axes.grid(True, color="#dddddd", linewidth=0.6)
        axes.legend(frameon=False)
    picture = picture_bytes(figure)
    write_atomically(RESULTS / "craft.png", lambda file: file.write(picture))
    return 0


if __name__ == "__main__":
    sys.exit(main())

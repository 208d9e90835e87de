"""Figures 1 and 2: the model of a config with the shapes of its parameters, or its multi-head attention.

python -m examples.paper.architecture CONFIG [--part attention] [--set KEY=VALUE] -o figure1.png
"""

import sys

from examples import report_errors
from examples.paper.architecture_diagram import draw_architecture
from examples.paper.attention_diagram import draw_multi_head_attention
from minitransformer.cli.common import with_vocabulary
from minitransformer.cli.main import Parser
from minitransformer.cli.options import add_config_options, add_output_option
from minitransformer.cli.plot import check_picture, save_picture
from minitransformer.config import Config
from minitransformer.models import model_class


@report_errors
def main() -> int:
    parser = Parser(prog="python -m examples.paper.architecture", description=__doc__.split("\n")[0])
    add_config_options(parser, "TOML file, as for train")
    shown = "the whole model (Figure 1) or its multi-head attention (Figure 2) (default: model)"
    parser.add_argument("--part", choices=("model", "attention"), default="model", help=shown)
    add_output_option(parser, "PNG or SVG file to write")
    arguments = parser.parse_args()
    output = check_picture(arguments.output, [arguments.config])
    config = with_vocabulary(Config.load(arguments.config, arguments.settings)).model
    draw = draw_architecture if arguments.part == "model" else draw_multi_head_attention
    figure = draw(config, model_class(config).parameter_shapes(config))
    save_picture(figure, output, lambda warning: print(f"architecture: {warning}", file=sys.stderr))
    return 0


if __name__ == "__main__":
    sys.exit(main())

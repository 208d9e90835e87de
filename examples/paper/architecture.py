"""Figures 1 and 2: the model of a config with the shapes of its parameters, or its multi-head attention.

python -m examples.paper.architecture CONFIG [--part attention] [--set KEY=VALUE] -o figure1.png
"""

import sys
from pathlib import Path

from examples import report_errors
from examples.paper.architecture_diagram import draw_architecture
from examples.paper.attention_diagram import draw_multi_head_attention
from minitransformer.cli.common import with_vocabulary, writable_file
from minitransformer.cli.main import Parser
from minitransformer.cli.options import add_config_options
from minitransformer.cli.plot import save_picture
from minitransformer.config import Config
from minitransformer.errors import ConfigError, quote
from minitransformer.models import model_class


@report_errors
def main() -> int:
    parser = Parser(prog="architecture", description=__doc__.split("\n")[0])
    add_config_options(parser, "TOML file, as for train")
    shown = "the whole model (Figure 1) or its multi-head attention (Figure 2) (default: model)"
    parser.add_argument("--part", choices=("model", "attention"), default="model", help=shown)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="PNG or SVG file to write")
    arguments = parser.parse_args()
    output = writable_file(arguments.output, [arguments.config])
    if output.suffix.lower() not in (".png", ".svg"):
        raise ConfigError(f"output must end in .png, .svg, got {quote(output.name, 60)}")
    config = with_vocabulary(Config.load(arguments.config, arguments.settings)).model
    draw = draw_architecture if arguments.part == "model" else draw_multi_head_attention
    figure = draw(config, model_class(config).parameter_shapes(config))
    save_picture(figure, output, lambda warning: print(f"architecture: {warning}", file=sys.stderr))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""``paper``: which line implements each claim of the paper, which test checks it, and what was measured."""

import argparse
import shutil
from pathlib import Path

from minitransformer.cli.common import report, writable_file
from minitransformer.errors import ConfigError, quoted
from minitransformer.files import write_text

DESCRIPTION = """\
List every equation and claim of "Attention Is All You Need", sec. 3 to 6: the lines that implement it, tests,
measurements and whether they agree with the paper, the config keys that concern it, and what differs or is open."""


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("paper", help="code and tests of each claim of the paper", description=DESCRIPTION)
    shown = "section of the paper, with those within it, such as 3.2 (default: all)"
    parser.add_argument("--section", default="", metavar="N", help=shown)
    shown = "Markdown or HTML page to write; one in HTML has line numbers too (default: print text)"
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help=shown)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    from minitransformer.paper import html_page, markdown_page, read_claims, terminal_text

    claims, output = read_claims(arguments.section), arguments.output
    if output is None:
        print(terminal_text(claims, shutil.get_terminal_size().columns))
        return
    pages = {".md": markdown_page, ".html": html_page}
    if output.suffix.lower() not in pages:
        raise ConfigError(f"--output must end in .md or .html, got {quoted(output.name, 60)}")
    writable_file(output)
    write_text(output, pages[output.suffix.lower()](claims, output.resolve().parent))
    report(str(output))

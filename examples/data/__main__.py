"""List the known data sets, and download one.

python -m examples.data list | get NAME
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from examples import report_errors
from examples.data import copy_from, find, get, read_data_sets
from minitransformer.cli.main import Parser


@report_errors
def main(argv: Sequence[str] | None = None) -> int:
    arguments = build_parser().parse_args(argv)
    arguments.run(arguments)
    return 0


def build_parser() -> Parser:
    parser = Parser(prog="python -m examples.data", description=__doc__.split("\n")[0])
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    actions.add_parser("list", help="name, contents and license of every data set").set_defaults(run=run_list)
    getting = actions.add_parser("get", help="download a data set and verify it; resumes an interrupted download")
    getting.add_argument("name", metavar="NAME", help="name of a data set; `list` has them")
    getting.add_argument(
        "--to", type=Path, default=Path("data"), metavar="FOLDER", help="files go to FOLDER/NAME/ (default: data)"
    )
    getting.add_argument(
        "--from",
        type=Path,
        dest="source",
        metavar="FOLDER",
        help="copy the files from FOLDER or FOLDER/NAME/ instead of downloading them (default: download)",
    )
    getting.set_defaults(run=run_get)
    return parser


def run_list(arguments: argparse.Namespace) -> None:
    for data_set in read_data_sets().values():
        print(data_set.name)
        print(f"    contents: {data_set.contents}")
        print(f"    size:     {data_set.size}")
        print(f"    license:  {data_set.license}")
        print(f"    checksum: {data_set.checksums}")
        for address in data_set.addresses:
            print(f"    {address}")
    print("These are the official addresses, but this program has not been tested with them.")


def run_get(arguments: argparse.Namespace) -> None:
    data_set = find(arguments.name)
    print(f"{data_set.name}: {data_set.contents}")
    print(f"size: {data_set.size}")
    print(f"license: {data_set.license}")
    if arguments.source is None:
        get(data_set, arguments.to)
    else:
        copy_from(arguments.source, data_set, arguments.to)


if __name__ == "__main__":
    sys.exit(main())

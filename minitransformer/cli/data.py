"""``data list | get``: which data sets there are, and how one comes onto this machine."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("data", help="list data sets and fetch them from their official addresses")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("list", help="name, contents and licence of every data set").set_defaults(run=run_list)
    get = actions.add_parser("get", help="fetch a data set, checked; an interrupted download is gone on with")
    get.add_argument("name", metavar="NAME", help="which data set; `minitransformer data list` shows them")
    get.add_argument(
        "--to", type=Path, default=Path("data"), metavar="FOLDER", help="the files go to FOLDER/NAME/ (default: data)"
    )
    get.add_argument(
        "--from",
        type=Path,
        dest="source",
        metavar="FOLDER",
        help="take the files from FOLDER or FOLDER/NAME/ instead of the network (default: the network)",
    )
    get.set_defaults(run=run_get)


def run_list(arguments: argparse.Namespace) -> None:
    from minitransformer.data import DATA_SETS

    for data_set in DATA_SETS:
        print(data_set.name)
        print(f"    contents: {data_set.contents}")
        print(f"    size:     {data_set.size}")
        print(f"    licence:  {data_set.licence}")
        print(f"    SHA-256:  {data_set.checksums}")
        for address in dict.fromkeys(file.address for file in data_set.files):
            print(f"    {address}{'' if data_set.tried else '  (not tried)'}")


def run_get(arguments: argparse.Namespace) -> None:
    from minitransformer.data import find, get, take

    data_set = find(arguments.name)
    print(f"{data_set.name}: {data_set.contents}")
    print(f"size: {data_set.size}")
    print(f"licence: {data_set.licence}")
    if arguments.source is None:
        get(data_set, arguments.to)
    else:
        take(data_set, arguments.source, arguments.to)

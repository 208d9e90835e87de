"""``data list | get``: list the known data sets, and download one."""

import argparse
from pathlib import Path


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("data", help="list data sets and download them from their official addresses")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("list", help="name, contents and licence of every data set").set_defaults(run=run_list)
    get = actions.add_parser("get", help="download a data set and verify it; resumes an interrupted download")
    get.add_argument("name", metavar="NAME", help="name of a data set; `minitransformer data list` lists them")
    get.add_argument(
        "--to", type=Path, default=Path("data"), metavar="FOLDER", help="files go to FOLDER/NAME/ (default: data)"
    )
    get.add_argument(
        "--from",
        type=Path,
        dest="source",
        metavar="FOLDER",
        help="copy the files from FOLDER or FOLDER/NAME/ instead of downloading them (default: download)",
    )
    get.set_defaults(run=run_get)


def run_list(arguments: argparse.Namespace) -> None:
    from minitransformer.data import DATA_SETS

    for data_set in DATA_SETS:
        print(data_set.name)
        print(f"    contents: {data_set.contents}")
        print(f"    size:     {data_set.size}")
        print(f"    licence:  {data_set.licence}")
        print(f"    checksum: {data_set.checksums}")
        for address in dict.fromkeys(file.address for file in data_set.files):
            print(f"    {address}")
    print("These are the official addresses, but this program has not been tested with them.")


def run_get(arguments: argparse.Namespace) -> None:
    from minitransformer.data import copy_from, find, get

    data_set = find(arguments.name)
    print(f"{data_set.name}: {data_set.contents}")
    print(f"size: {data_set.size}")
    print(f"licence: {data_set.licence}")
    if arguments.source is None:
        get(data_set, arguments.to)
    else:
        copy_from(arguments.source, data_set, arguments.to)

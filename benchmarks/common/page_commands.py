"""The commands that a page of the documentation tells its reader to run."""

import re


def page_commands(page: str) -> list[str]:
    """All commands of the page's ``sh`` blocks, in order, each in one line with the variables set before it.

    Raises:
        KeyError: a variable has no value.
    """
    variables: dict[str, str] = {}
    commands = []
    for block in re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            line = " ".join(re.sub(r"(^|\s)#.*", "", line).split())
            if assignment := re.fullmatch(r"([A-Z]+)=(\S+)", line):
                variables[assignment[1]] = assignment[2]
            elif line:
                commands.append(re.sub(r"\$([A-Z]+)", lambda name: variables[name[1]], line))
    return commands


def short_name(command: str) -> str:
    """What a command of examples/wmt14 does, and with which text or recipe, such as ``bpe train, en-de``."""
    verb = re.match(
        r"(?:minitransformer |python -m examples\.(?:wmt14\.)?)?(.+?)(?: -o| --src| --checkpoint| --to| \S*/|$)",
        command,
    )[1]
    what = re.search(r"en-\w\w(-base|-big|-mlperf)?(-h200)?|mlperf", command)
    return f"{verb}, {what[0]}" if what else verb

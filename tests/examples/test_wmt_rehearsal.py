"""The rehearsal of WMT 2014: it runs what the page tells a reader to run, nothing else and nothing less."""

import json
import re
import shlex
import signal
import sys

import pytest
from extras import need

from benchmarks import wmt_scale
from benchmarks.common.command_cost import Cost, cost_of
from benchmarks.common.page_commands import page_commands

PAGE = wmt_scale.PAGE.read_text(encoding="utf-8")


@pytest.fixture
def ran(monkeypatch, tmp_path) -> list[str]:
    """The command lines of a rehearsal that runs none of them; its first training leaves its updates."""
    lines: list[str] = []

    def costs_nothing(command, folder, kill_when=None):
        lines.append(command)
        if kill_when:
            (folder / "runs/wmt14-en-de-base").mkdir(parents=True)
            metrics = [{"kind": "train", "update": update} for update in range(1, wmt_scale.SHORT.updates + 1)]
            text = "".join(json.dumps(each) + "\n" for each in metrics)
            (folder / "runs/wmt14-en-de-base/metrics.jsonl").write_text(text)
        return Cost(1.0, 1, 1)

    monkeypatch.setattr(wmt_scale, "cost_of", costs_nothing)
    monkeypatch.setattr(wmt_scale, "replace_download", lambda command, folder, size: lines.append(command))
    return lines


def rehearse(folder, page: str = PAGE) -> dict[str, Cost]:
    return wmt_scale.rehearse(folder, wmt_scale.SHORT, page_commands(page))


def test_every_line_of_the_page_is_a_part_of_one_command():
    shell = "".join(re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL))
    words = [word for line in shell.splitlines() for word in re.sub(r"#.*|\\$", "", line).split()]
    values = {word.partition("=")[0]: word.partition("=")[2] for word in words if re.match("[A-Z]+=", word)}
    without = [word for word in words if not re.match("[A-Z]+=", word)]
    found = shlex.split(" ".join(page_commands(PAGE)))
    assert len(found) == len(without) and values
    assert all(a == b or b.startswith("$") for a, b in zip(found, without, strict=True))


def test_the_rehearsal_runs_the_pages_commands_in_order_with_settings_added(ran, tmp_path):
    costs = rehearse(tmp_path)
    commands = page_commands(PAGE)
    first = commands.index(wmt_scale.FIRST_TRAINING)
    expected = [*commands[:first], wmt_scale.FIRST_TRAINING, *commands[first:]]  # killed and resumed
    for command, line in zip(expected, ran, strict=True):
        added = line.removeprefix(command)
        assert re.fullmatch(r"( --set \w+\.\w+=\S+)*", added)
        assert bool(added) == (" train examples/" in command)
    assert len(costs) == len([line for line in ran if "data get " not in line])


def test_the_score_of_the_public_record_is_uncased_bleu_of_the_words_of_mteval(monkeypatch):
    """As sacreBLEU itself reads the page's command."""
    sacrebleu = need("sacrebleu.sacrebleu")
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # importing it lets a closed pipe end the process
    (command,) = (line for line in page_commands(PAGE) if line.startswith("sacrebleu "))
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    options = sacrebleu.parse_args()
    assert (options.bleu_lowercase, options.bleu_tokenize) == (True, "intl")
    assert options.refs == ["data/newstest/newstest2014.en-de.de"] and options.input == ["hypotheses.de"]


def test_a_command_that_fails_ends_the_rehearsal_with_its_log(tmp_path):
    with pytest.raises(SystemExit, match="failed with status 2"):
        cost_of("minitransformer plan missing.toml", tmp_path)
    cost = cost_of("python -c 'import time; time.sleep(0.5)'", tmp_path)  # on a busy machine a shorter one is not seen
    assert cost.seconds > 0 and cost.peak_bytes > 10**6


def test_what_was_on_the_disk_before_a_command_is_no_cost_of_it(tmp_path):
    (tmp_path / "before").write_bytes(bytes(10**6))
    (tmp_path / "write.py").write_text("open('new', 'wb').write(bytes(50_000))")
    assert 50_000 <= cost_of("python write.py", tmp_path).disk_bytes < 51_000  # and the line of the log

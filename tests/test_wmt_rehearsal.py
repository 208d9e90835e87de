"""The rehearsal of WMT 2014: it runs what the page tells a reader to run, nothing else and nothing less."""

import json
import re
import shlex
import signal
import subprocess
import sys

import pytest

from benchmarks import wmt_scale
from benchmarks.common import command_cost
from benchmarks.common.command_cost import Cost, cost_of
from benchmarks.common.page_commands import page_commands, short_name

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


def test_a_variable_of_the_page_has_the_value_that_was_set_last():
    page = "```sh\nA=one\nx $A \\\n    y   # $B\n```\n$A\n```sh\nA=two\n\nz $A/$A\n```\n"
    assert page_commands(page) == ["x one y", "z two/two"]
    with pytest.raises(KeyError):
        page_commands("```sh\nx $A\n```\n")


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


def test_what_has_run_before_is_not_run_again(ran, tmp_path):
    costs = rehearse(tmp_path)
    ran.clear()
    assert rehearse(tmp_path) == costs and ran == []


def test_a_command_that_the_page_changes_or_adds_is_run_as_it_stands_there(ran, tmp_path):
    page = (
        PAGE.replace("--criterion word_piece", "--criterion word_piece --min-count 7")
        + "\n```sh\nminitransformer doctor\n```\n"
    )
    rehearse(tmp_path, page)
    assert any(line.endswith("--criterion word_piece --min-count 7") for line in ran)
    assert ran[-1] == "minitransformer doctor"


def test_each_command_has_a_name_of_its_own():
    names = [short_name(command) for command in page_commands(PAGE)]
    assert len(set(names)) == len(names) and "bpe train, en-fr" in names


def test_the_score_of_the_public_record_is_uncased_bleu_of_the_words_of_mteval(monkeypatch):
    """As sacreBLEU itself reads the page's command."""
    sacrebleu = pytest.importorskip("sacrebleu.sacrebleu")
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # importing it lets a closed pipe end the process
    (command,) = (line for line in page_commands(PAGE) if line.startswith("sacrebleu "))
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    options = sacrebleu.parse_args()
    assert (options.bleu_lowercase, options.bleu_tokenize) == (True, "intl")
    assert options.refs == ["data/newstest/newstest2014.en-de.de"] and options.input == ["hypotheses.de"]


def test_updates_lost_by_the_kill_are_noticed(ran, tmp_path, monkeypatch):
    monkeypatch.setattr(wmt_scale, "read_metrics", lambda path: [{"kind": "train", "update": 1}])
    with pytest.raises(SystemExit, match="each update must be there once"):
        rehearse(tmp_path)


def test_a_command_that_fails_ends_the_rehearsal_with_its_log(tmp_path):
    with pytest.raises(SystemExit, match="failed with status 2"):
        cost_of("minitransformer plan missing.toml", tmp_path)
    cost = cost_of("minitransformer --version", tmp_path)
    assert cost.seconds > 0 and cost.peak_bytes > 10**6


@pytest.mark.parametrize("language", wmt_scale.LANGUAGES)
def test_synthetic_text_has_the_files_that_the_download_would_have(language, tmp_path, monkeypatch):
    monkeypatch.delenv("MINITRANSFORMER_DATA", raising=False)
    for name in (f"wmt14-en-{language}", "newstest"):
        wmt_scale.replace_download(f"python -m examples.data get {name} --to data", tmp_path, wmt_scale.QUICK)
        files = {file.name: tmp_path / "data" / name / file.name for file in wmt_scale.find(name).files}
        lines = {file: path.read_text(encoding="utf-8").count("\n") for file, path in files.items()}
        for file, count in lines.items():
            assert count > 0 and lines[file.rpartition(".")[0] + ".en"] == count


def test_an_interrupted_rehearsal_leaves_no_command_running(tmp_path, monkeypatch):
    (tmp_path / "saved").touch()
    assert cost_of("sleep 60", tmp_path, kill_when=tmp_path / "saved").seconds < 30
    started, popen = [], subprocess.Popen

    def interrupted(seconds):
        raise KeyboardInterrupt

    def start(*line, **options):
        started.append(popen(*line, **options))
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", start)
    monkeypatch.setattr(command_cost.time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cost_of("sleep 60", tmp_path)
    assert started[0].returncode == -signal.SIGKILL

"""Keys and commands that have gone: what to do instead is said, and a key that changes nothing is ignored."""

import json
from pathlib import Path

import pytest

from minitransformer.cli.main import RETIRED_COMMANDS, main
from minitransformer.config import Config
from minitransformer.errors import ConfigError
from minitransformer.retired_keys import RETIRED_KEYS

CHANGES = (Path(__file__).parents[2] / "docs/changes.md").read_text(encoding="utf-8")


def load(tmp_path, text: str, *settings: str) -> Config:
    path = tmp_path / "run.toml"
    path.write_text(text, encoding="utf-8")
    return Config.load(path, settings)


@pytest.mark.parametrize("key", RETIRED_KEYS)
def test_a_key_that_has_gone_is_ignored_where_it_changes_nothing_and_else_refused_with_what_to_do(tmp_path, key):
    (section, name), (ignored, instead) = key.split("."), RETIRED_KEYS[key]
    if ignored is not None:
        assert load(tmp_path, f"[{section}]\n{name} = {json.dumps(ignored)}\n") == load(tmp_path, "")
    message = f"version 0.1.0 was the last with {key}: {instead}; see docs/changes.md"
    for text, settings, where in ((f"[{section}]\n{name} = 7\n", (), "run.toml"), ("", (f"{key}=7",), "with --set")):
        with pytest.raises(ConfigError) as caught:
            load(tmp_path, text, *settings)
        assert str(caught.value).endswith(f"{where}: {message}")


@pytest.mark.parametrize("section", ["model", "training"])
def test_all_retired_keys_of_a_section_are_named_at_once(tmp_path, section):
    keys = [key for key in RETIRED_KEYS if key.startswith(f"{section}.")]
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, "".join(f"{key} = 7\n" for key in keys))
    assert len(keys) > 1 and all(f"{key}: " in str(caught.value) for key in keys)


@pytest.mark.parametrize("command", RETIRED_COMMANDS)
def test_a_command_that_has_gone_names_its_replacement_in_one_line(command, capsys):
    assert main([*command.split(), "--json", "x"]) == 2
    assert capsys.readouterr().err == f"minitransformer {command}: {RETIRED_COMMANDS[command]}; see docs/changes.md\n"


@pytest.mark.parametrize("name", [*RETIRED_KEYS, *RETIRED_COMMANDS])
def test_what_has_gone_is_in_the_list_of_changes(name):
    assert f"`{name}`" in CHANGES

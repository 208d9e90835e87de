"""Keys of older configs: the new name is said, and a key that has gone is passed over where it changes nothing."""

import json
import re

import pytest

from minitransformer.config import Config
from minitransformer.errors import ConfigError
from minitransformer.retired_keys import REMOVED_KEYS, RETIRED_KEYS


def load(tmp_path, text: str, *settings: str) -> Config:
    path = tmp_path / "run.toml"
    path.write_text(text, encoding="utf-8")
    return Config.load(path, settings)


@pytest.mark.parametrize("key", RETIRED_KEYS)
def test_a_retired_key_is_refused_with_its_new_name(tmp_path, key):
    section, name = key.split(".")
    message = re.escape(f"{key} is now called {RETIRED_KEYS[key]}") + "$"
    with pytest.raises(ConfigError, match=f"run.toml: {message}"):
        load(tmp_path, f"[{section}]\n{name} = 1\n")
    with pytest.raises(ConfigError, match=f"with --set: {message}"):
        load(tmp_path, "", f"{key}=1")


@pytest.mark.parametrize("key", REMOVED_KEYS)
def test_a_key_that_has_gone_is_passed_over_at_its_default_and_else_refused_with_what_to_do(tmp_path, key):
    (section, name), (default, instead) = key.split("."), REMOVED_KEYS[key]
    assert load(tmp_path, f"[{section}]\n{name} = {json.dumps(default)}\n") == load(tmp_path, "")
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, f"[{section}]\n{name} = 7\n")
    assert str(caught.value).endswith(f"run.toml: {key} = 7 is no more after version 0.1.0; {instead}")


def test_all_retired_keys_of_a_file_are_named_at_once(tmp_path):
    text = "".join(f"{key} = 1\n" for key in RETIRED_KEYS)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert [part.split(" is now called ")[0] for part in str(caught.value).split(": ", 1)[1].split("; ")] == [
        *RETIRED_KEYS
    ]

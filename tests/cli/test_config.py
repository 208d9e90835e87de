"""Configs: what a TOML file and --set may say, and the clear refusal of everything else."""

import json
import math
import os
from pathlib import Path

import pytest

from minitransformer.cli.main import RETIRED_COMMANDS, main
from minitransformer.config import Config, ModelConfig, TranslationConfig
from minitransformer.errors import ConfigError
from minitransformer.model_config import TABLE3_ROWS
from minitransformer.retired_keys import RETIRED_KEYS
from minitransformer.settings import describe


def load(tmp_path, text: str, *settings: str) -> Config:
    path = tmp_path / "run.toml"
    path.write_text(text, encoding="utf-8")
    return Config.load(path, settings)


def test_an_empty_file_is_the_base_model_of_the_paper(tmp_path):
    config = load(tmp_path, "")
    assert (config.model.n_layers, config.model.d_model, config.model.d_ff, config.model.n_heads) == (6, 512, 2048, 8)
    assert (config.model.d_k, config.model.d_v) == (64, 64)
    assert (config.model.p_drop, config.model.label_smoothing) == (0.1, 0.1)
    assert (config.training.beta1, config.training.beta2, config.training.eps) == (0.9, 0.98, 1e-9)
    assert (config.training.warmup_steps, config.training.updates) == (4000, 100_000)
    assert (config.translation.beam_size, config.translation.alpha, config.translation.max_extra) == (4, 0.6, 50)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[modle]\n", r"run.toml: unknown section 'modle'; known: model, data, training, execution, translation"),
        ("model = 3\n", r"run.toml: \[model\] must be a table, got 3"),
        ("[model]\nlayers = 6\n", r"run.toml: unknown key 'layers' in \[model\]; known: kind, vocab_size, n_layers"),
        ("[model]\nn_layers = 6.0\n", r"model.n_layers must be a whole number, got 6.0"),
        ("[model]\nn_layers = true\n", r"model.n_layers must be a whole number, got True"),
        ("[model]\ntie_embeddings = 1\n", r"model.tie_embeddings must be true or false, got 1"),
        ("[model]\nsrc_vocab_size = 9\n", r"model.tie_embeddings must be false where the source has a vocabulary"),
        ("[model]\nkind = 'language_model'\nsrc_vocab_size = 9\n", r"model.src_vocab_size must be left out where"),
        ("[model]\nkind = 'language_model'\ntie_embeddings = false\n", r"model.tie_embeddings must be left out where"),
        ("[model]\nnorm = 'middle'\n", r"model.norm must be one of post, pre, got 'middle'"),
        ("[model]\np_drop = 1.0\n", r"model.p_drop must be at most 0.999, got 1.0"),
        ("[model]\np_drop = nan\n", r"model.p_drop must be at least 0, got nan"),
        ("[model]\nd_model = 0\n", r"model.d_model must be at least 1, got 0"),
        ("[model]\nd_model = 100\nn_heads = 3\n", r"model.d_model must be a multiple of n_heads .* set model.d_k"),
        ("[data]\ntrain_src = 3\n", r"data.train_src must be a string, got 3"),
        ("[training]\nwarmup_steps = 0\n", r"training.warmup_steps must be at least 1, got 0"),
        ("[training]\nseed = -1\n", r"training.seed must be at least 0, got -1"),
        ("[model\n", r"run.toml: must be TOML"),
        ("a = " + "[" * 5000, r"run.toml: must be TOML: maximum recursion depth exceeded"),
        ("[model]\nn_layers = " + "1" * 5000, r"run.toml: must be TOML: Exceeds the limit"),
        ("[model]\nd_ff = 0x" + "f" * 5000, r"model.d_ff must be at most 2147483647, got a number of thousands of"),
        ("[model]\nd_ff = 2147483648\n", r"model.d_ff must be at most 2147483647, got 2147483648"),
        ("[model]\nn_layers = 1001\n", r"model.n_layers must be at most 1000, got 1001"),
        ("[training]\nseed = 9223372036854775808\n", r"training.seed must be at most 9223372036854775807"),
        ("[training]\nmicro_batches = 10001\n", r"training.micro_batches must be at most 10000, got 10001"),
        ("[training]\neps = 0\n", r"training.eps must be at least 1e-16, got 0"),
        ("[training]\nlr_scale = 1e7\n", r"training.lr_scale must be at most 1000000.0, got 10000000.0"),
        ("[training]\nclip_norm = inf\n", r"training.clip_norm must be at most 1.79.*e\+308, got inf"),
        ("[training]\nclip_norm = 1" + "0" * 400, r"training.clip_norm must be at most 1.79.*e\+308, got 10{99}..."),
        ("[training]\ndirectory = ''\n", r"training.directory must name a folder, got ''"),
        ("[translation]\nalpha = 101\n", r"translation.alpha must be at most 100, got 101"),
        ('[data]\ntrain_src = "a\\u0000"\n', r"data.train_src must be one line of text, got 'a\\x00'"),
        ("[data]\ntrain_src = '~nobody-has-this-name/a'\n", r"data.train_src must be below a home folder that exists"),
        ('[data]\ntrain_src = "a\\nb"\n', r"data.train_src must be one line of text, got 'a\\nb'"),
    ],
)
def test_a_fault_in_the_file_is_named_with_the_file(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message) as raised:
        load(tmp_path, text)
    assert "run.toml" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_that_is_not_there_or_not_utf8_is_named_with_its_line(tmp_path):
    path = tmp_path / "run.toml"
    with pytest.raises(ConfigError, match="run.toml: cannot be read: No such file"):
        Config.load(path)
    path.write_bytes(b"\xef\xbb\xbf[model]\r\nn_layers = 2\r\n")  # a byte order mark is ignored
    assert Config.load(path).model.n_layers == 2
    path.write_bytes(b"\xef\xbb\xbf[model]\n# gr\xf6\xdfer\n")
    with pytest.raises(ConfigError, match="run.toml:2: must be UTF-8, got byte 0xf6"):
        Config.load(path)


def test_a_path_may_begin_in_the_home_folder(tmp_path, monkeypatch):
    for variable in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(variable, str(tmp_path))
    config = load(tmp_path, "[training]\ndirectory = '~/runs/a'\n", "data.train_src=~/a.en")
    assert config.training.directory == os.path.join(tmp_path, "runs/a")
    assert config.data.train_src == os.path.join(tmp_path, "a.en")
    assert load(tmp_path, "[training]\ndirectory = './~'\n").training.directory == "./~"


def test_settings_override_the_file_and_later_ones_override_earlier_ones(tmp_path):
    config = load(
        tmp_path,
        "[model]\nn_layers = 2\n",
        "model.n_layers=3",
        "model.n_layers = 4",
        "model.norm=pre",
        "data.train_src=a b.txt",
        'data.train_tgt="quoted.txt"',
        "training.eps=1e-8",
        "model.tie_embeddings=false",
    )
    assert (config.model.n_layers, config.model.norm, config.model.tie_embeddings) == (4, "pre", False)
    assert (config.data.train_src, config.data.train_tgt) == ("a b.txt", "quoted.txt")
    assert config.training.eps == 1e-8


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("n_layers=3", "--set must look like section.key=value, got 'n_layers=3'"),
        ("model.n_layers", "--set must look like section.key=value"),
        ("model.layers=3", "with --set: unknown key 'layers'"),
        ("models.n_layers=3", r"with --set: unknown section 'models'"),
        ("model.n_layers=three", "with --set: model.n_layers must be a whole number, got 'three'"),
        ("model.n_layers=-1", "with --set: model.n_layers must be at least 0, got -1"),
        ("model.n_layers=3\nd_model=8", r"--set must look like section.key=value, got 'model.n_layers=3\\nd_model=8'"),
        ("model.n_layers=" + "1" * 5000, r"model.n_layers must be a whole number, got '1{99}\.\.\.$"),
        ("data.train_src='a", r"--set must give a word or a TOML value, got .*'a"),
        ('data.train_src=  "a"b', r"--set must give a word or a TOML value"),
        ("model.n_layers=[" + "[" * 5000, r"--set must give a word or a TOML value"),
        ("data.train_src={a", r"--set must give a word or a TOML value"),
    ],
)
def test_a_fault_in_a_setting_is_blamed_on_the_setting(tmp_path, setting, message):
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, "[model]\nn_layers = 2\n", setting)


def test_an_integer_is_accepted_for_a_float_but_not_the_other_way_round():
    assert TranslationConfig(alpha=1).alpha == 1.0
    assert type(TranslationConfig(alpha=1).alpha) is float
    with pytest.raises(ConfigError, match="translation.beam_size must be a whole number, got 4.0"):
        TranslationConfig(beam_size=4.0)


# Table 3 as printed: row, then what differs from base.
TABLE3 = {
    "A1": (6, 512, 2048, 1, 512, 512, 0.1, 0.1),
    "A2": (6, 512, 2048, 4, 128, 128, 0.1, 0.1),
    "A3": (6, 512, 2048, 16, 32, 32, 0.1, 0.1),
    "A4": (6, 512, 2048, 32, 16, 16, 0.1, 0.1),
    "B1": (6, 512, 2048, 8, 16, 64, 0.1, 0.1),
    "B2": (6, 512, 2048, 8, 32, 64, 0.1, 0.1),
    "C1": (2, 512, 2048, 8, 64, 64, 0.1, 0.1),
    "C2": (4, 512, 2048, 8, 64, 64, 0.1, 0.1),
    "C3": (8, 512, 2048, 8, 64, 64, 0.1, 0.1),
    "C4": (6, 256, 2048, 8, 32, 32, 0.1, 0.1),
    "C5": (6, 1024, 2048, 8, 128, 128, 0.1, 0.1),
    "C6": (6, 512, 1024, 8, 64, 64, 0.1, 0.1),
    "C7": (6, 512, 4096, 8, 64, 64, 0.1, 0.1),
    "D1": (6, 512, 2048, 8, 64, 64, 0.0, 0.1),
    "D2": (6, 512, 2048, 8, 64, 64, 0.2, 0.1),
    "D3": (6, 512, 2048, 8, 64, 64, 0.1, 0.0),
    "D4": (6, 512, 2048, 8, 64, 64, 0.1, 0.2),
    "E": (6, 512, 2048, 8, 64, 64, 0.1, 0.1),
    "base": (6, 512, 2048, 8, 64, 64, 0.1, 0.1),
    "big": (6, 1024, 4096, 16, 64, 64, 0.3, 0.1),
}


@pytest.mark.parametrize("row", TABLE3)
def test_the_rows_of_table_3_have_the_printed_shapes(row):
    model = ModelConfig.table3(row)
    shape = (model.n_layers, model.d_model, model.d_ff, model.n_heads, model.d_k, model.d_v)
    assert shape + (model.p_drop, model.label_smoothing) == TABLE3[row]
    assert model.positions == ("learned" if row == "E" else "sinusoidal")


def test_table_3_is_complete_and_an_unknown_row_is_an_error_with_all_rows():
    assert set(TABLE3) == set(TABLE3_ROWS)
    with pytest.raises(ConfigError, match="row must be one of base, A1, .*, E, big, got 'A5'"):
        ModelConfig.table3("A5")


def test_every_key_is_described_with_a_default_that_is_its_own():
    defaults = Config().to_dict()
    for key, _, default, meaning in describe(Config):
        section, name = key.split(".")
        shown = defaults[section][name]
        assert default == shown or name in ("d_k", "d_v"), key
        assert len(meaning) > 10, key
    assert len(describe(Config)) == sum(len(section) for section in defaults.values())
    assert not any(isinstance(value, float) and math.isnan(value) for _, _, value, _ in describe(Config))


def test_a_key_of_thousands_of_parts_is_refused_in_small_memory(tmp_path, peak_memory):
    """tomllib keeps every prefix of a dotted key: 100,000 parts would take 40 GB."""
    key = "a." * 2_000 + "a = 1"
    (tmp_path / "run.toml").write_text(key)
    for settings in ((), (f"model.kind={{{key}}}",)):
        with pytest.raises(ConfigError, match="a line must have at most 100 dots"):
            Config.load(tmp_path / "run.toml", settings)
        assert peak_memory() < 1_000_000
        (tmp_path / "run.toml").write_text("")


# Keys and commands that have gone: what to do instead is said, and a key that changes nothing is ignored

CHANGES = (Path(__file__).parents[2] / "docs/changes.md").read_text(encoding="utf-8")


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

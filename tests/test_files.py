"""Files are written whole or not at all, and never in the place of something else."""

import os
import stat

import pytest

from minitransformer.errors import ConfigError
from minitransformer.files import remove_temporaries, write_atomically


def test_a_link_stays_a_link_and_its_file_is_written(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_atomically(tmp_path / "link", lambda file: file.write(b"new"))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_a_pipe_is_refused_and_stays(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="ordinary file, got .*pipe"):
        write_atomically(tmp_path / "pipe", lambda file: file.write(b"new"))
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_a_file_keeps_its_permissions(tmp_path, mode):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(mode)
    write_atomically(path, lambda file: file.write(b"new"))
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path):
    write_atomically(tmp_path / "ours", lambda file: file.write(b"new"))
    (tmp_path / "any").write_bytes(b"new")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "any").stat().st_mode


def test_somebody_elses_partial_file_is_left_alone(tmp_path):
    for name in ("out.npz.partial", "notes.partial"):
        (tmp_path / name).write_bytes(b"precious")
    write_atomically(tmp_path / "out.npz", lambda file: file.write(b"new"))
    remove_temporaries(tmp_path, "out.npz")
    assert {path.name for path in tmp_path.iterdir()} == {"out.npz", "out.npz.partial", "notes.partial"}


def test_an_error_of_the_system_names_the_file(tmp_path):
    def full(file):
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left on device: .*out.npz") as caught:
        write_atomically(tmp_path / "out.npz", full)
    assert caught.value.filename == str(tmp_path / "out.npz")
    assert list(tmp_path.iterdir()) == []

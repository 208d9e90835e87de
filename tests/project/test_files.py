"""Files are written whole or not at all, and they never replace anything but a file."""

import os
import stat

import pytest
from systems import needs

from minitransformer.errors import ConfigError
from minitransformer.files import remove_temporaries, staging_folder, write_atomically


@needs("POSIX")
@pytest.mark.parametrize("old", [b"old", None], ids=["to a file", "dangling"])
def test_a_link_stays_a_link_and_its_file_is_written(tmp_path, old):
    if old is not None:
        (tmp_path / "real").write_bytes(old)
    (tmp_path / "link").symlink_to("real")
    write_atomically(tmp_path / "link", lambda file: file.write(b"new"))
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_bytes() == b"new"


@needs("POSIX")
def test_contents_are_on_the_disk_before_a_file_has_its_name(tmp_path, monkeypatch):
    path, synced = tmp_path / "file", []

    def note(descriptor):
        found = os.fstat(descriptor)
        synced.append((stat.S_ISDIR(found.st_mode), path.exists(), found.st_size))

    monkeypatch.setattr(os, "fsync", note)
    write_atomically(path, lambda file: file.write(b"new"))
    assert synced[0] == (False, False, 3) and synced[1][:2] == (True, True)


@needs("named pipes")
def test_a_pipe_a_link_to_it_and_a_folder_are_refused_and_stay(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "folder").mkdir()
    for name, kind in (("pipe", "device or pipe"), ("link", "device or pipe"), ("folder", "folder")):
        with pytest.raises(ConfigError, match=f"output must be an ordinary file, got the {kind} .*{name}"):
            write_atomically(tmp_path / name, lambda file: file.write(b"new"))
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode) and (tmp_path / "link").is_symlink()
    assert {path.name for path in tmp_path.iterdir()} == {"pipe", "link", "folder"}


def test_two_writers_of_one_file_do_not_disturb_each_other(tmp_path):
    def write_while_another_writes(file):
        file.write(b"first")
        write_atomically(tmp_path / "out", lambda other: other.write(b"second"))

    write_atomically(tmp_path / "out", write_while_another_writes)
    assert (tmp_path / "out").read_bytes() == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@needs("POSIX")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_a_file_keeps_its_permissions(tmp_path, mode):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(mode)
    write_atomically(path, lambda file: file.write(b"new"))
    assert stat.S_IMODE(path.stat().st_mode) == mode


@needs("POSIX")
def test_partial_files_of_other_programs_are_not_deleted(tmp_path):
    link, folder = (f".out.npz.{digit * 16}.partial" for digit in "01")
    others = {"out.npz.partial", ".out.npz.partial", ".out.npz.0123.partial", "notes.partial"}
    for name in others:
        (tmp_path / name).write_bytes(b"precious")
    (tmp_path / link).symlink_to("notes.partial")
    (tmp_path / folder).mkdir()
    (tmp_path / f".out.npz.{'2' * 16}.partial").write_bytes(b"left behind")
    write_atomically(tmp_path / "out.npz", lambda file: file.write(b"new"))
    remove_temporaries(tmp_path, "out.npz")
    assert {path.name for path in tmp_path.iterdir()} == {"out.npz", link, folder, *others}


@needs("file locks")
def test_a_folder_that_another_process_fills_is_not_deleted(tmp_path):
    with staging_folder(tmp_path / "out") as first:
        (first / "file").write_bytes(b"new")
        with staging_folder(tmp_path / "out") as second:
            assert (first / "file").exists() and not list(second.iterdir())
        first.rename(tmp_path / "out")
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["out", "out/file"]


def test_an_error_of_the_system_names_the_file_and_keeps_the_old_one(tmp_path):
    def full(file):
        raise OSError(28, "No space left on device")

    (tmp_path / "out.npz").write_bytes(b"old")
    for path, message in (
        (tmp_path / "out.npz", "No space left on device"),
        (tmp_path / "no" / "out.npz", "No such file"),
    ):
        with pytest.raises(OSError, match=f"{message}.*: .*out.npz") as caught:
            write_atomically(path, full)
        assert caught.value.filename == str(path)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


def test_a_file_where_a_folder_must_be_is_named_and_not_the_temporary_folder_in_it(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError) as refused, staging_folder(tmp_path / "file" / "out"):
        pass
    assert refused.value.filename == str(tmp_path / "file")

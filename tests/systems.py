"""Tests that need what not every system has: which tests, and what they need. Elsewhere they are skipped."""

import importlib.util
import os
import signal
import socket
import sys
from fnmatch import fnmatch
from functools import cache
from pathlib import Path


@cache
def _has_second_loopback_address() -> bool:
    """Linux and Windows have all of 127.0.0.0/8, macOS has 127.0.0.1 only."""
    try:
        socket.create_server(("127.0.0.2", 0)).close()
    except OSError:
        return False
    return True


POSIX = os.name == "posix"
NEEDS = {
    "signals from process to process": (
        hasattr(signal, "SIGKILL"),
        "test_nothing_hangs.py::*",
        "test_launch.py::test_a_signal_makes_the_ranks_save_and_leave*",
        "test_launch.py::test_ranks_do_not_outlive_a_launch_that_is_killed",
        "test_launch.py::test_a_rank_that_dies_before_it_connects_is_named",
        "test_trainer.py::test_sigterm_saves_a_checkpoint_and_exits_with_143",
        "test_trainer.py::test_a_run_under_nohup_ignores_sighup",
        "test_command_line.py::test_ctrl_c_during_the_imports_gives_no_traceback",
        "test_command_line.py::test_a_closed_pipe_ends_the_program_quietly*",
        "test_translate_command.py::test_an_interrupted_translation_leaves_whole_lines_in_order*",
    ),
    "a POSIX shell and its programs": (
        POSIX,
        "test_launch.py::test_a_closed_output_is_one_line*",
        "test_strangers.py::test_no_process_is_killed_that_a_rank_names",
    ),
    "named pipes": (
        hasattr(os, "mkfifo"),
        "test_command_line.py::test_a_pipe_is_refused_as_an_output_file",
        "test_files.py::test_a_pipe_a_link_to_it_and_a_folder_are_refused_and_stay",
    ),
    "the permissions and links of POSIX": (
        POSIX,
        "test_data_command.py::test_a_link_planted_in_a_shared_folder_is_never_written_through",
        "test_files.py::test_a_link_stays_a_link_and_its_file_is_written*",
        "test_files.py::test_a_file_keeps_its_permissions*",
        "test_files.py::test_partial_files_of_other_programs_are_not_deleted",
    ),
    "folders that can be opened, locked, and deleted while in use": (
        importlib.util.find_spec("fcntl") is not None,
        "test_run_folder.py::test_two_runs_do_not_share_a_directory",
        "test_run_folder.py::test_a_run_whose_folder_is_deleted_ends_and_does_not_make_it_again*",
        "test_run_folder.py::test_a_run_writes_nothing_into_the_folder_of_the_run_that_took_its_place*",
    ),
    "limits of a process": (
        importlib.util.find_spec("resource") is not None,
        "test_strangers.py::test_more_connections_than_file_descriptors_do_not_keep_a_core_busy",
    ),
    "/dev/zero": (
        Path("/dev/zero").exists(),
        "test_corpus.py::test_a_device_that_never_ends_is_refused_by_every_reader*",
    ),
    "fork": (hasattr(os, "fork"), "test_workers.py::test_a_forked_process_makes_threads_of_its_own"),
    "Linux's /proc": (
        sys.platform == "linux",
        "test_strangers.py::test_the_token_of_launch_is_random_and_on_no_command_line",
    ),
    "a second loopback address": (
        _has_second_loopback_address(),
        "test_strangers.py::test_ranks_of_one_machine_listen_on_loopback_only",
    ),
}
"""What a test needs: (whether this system has it, patterns of the tests' names)."""


def lacking(name: str) -> str | None:
    """What the test needs that this system does not have; ``name``: file::test, as pytest shows it."""
    for need, (is_here, *patterns) in NEEDS.items():
        if not is_here and any(fnmatch(name, each) for each in patterns):
            return need
    return None

"""What some tests need of the operating system: ``@needs("fork")`` skips a test where there is none."""

import importlib.util
import os
import signal
import sys
from pathlib import Path

import pytest

FEATURES = {
    "fork": hasattr(os, "fork"),
    "POSIX": os.name == "posix",  # its shell and programs, the permissions and links of its files
    "named pipes": hasattr(os, "mkfifo"),
    "signals between processes": hasattr(signal, "SIGKILL"),
    "file locks": importlib.util.find_spec("fcntl") is not None,  # and folders that may be deleted while in use
    "limits of a process": importlib.util.find_spec("resource") is not None,
    "/dev/zero": Path("/dev/zero").exists(),
    "/proc": sys.platform == "linux",
}
"""Whether this system has it."""


def needs(feature: str) -> pytest.MarkDecorator:
    """Skip the test on systems without this feature."""
    return pytest.mark.skipif(not FEATURES[feature], reason=f"this system does not have {feature}")

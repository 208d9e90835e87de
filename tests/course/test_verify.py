"""``course.verify``: kept functions proved again, where they may change nothing."""

import re
import sys

import pytest

from course import verify
from course.mine import HEADER

RIGHT = "def f(grad, x, w):\n    return grad @ w.T, x.T @ grad, grad.sum(axis=0)\n"
WRITES = "open('{place}', 'w').write('x')\n"
STARTS = "import os\nos.system('echo x > {place}')\n"
GROWS = "import numpy as np\nbig = np.ones(10**11)\n"
TEXTS = {"writes": WRITES, "starts a program": STARTS}
if sys.platform == "linux":  # elsewhere memory is not limited
    TEXTS["grows"] = GROWS


def test_right_functions_are_counted_and_the_model_of_them_is_right(tmp_path, capfd):
    (tmp_path / "01_arrays.linear_backward.py").write_text(f"{HEADER}f\n\n{RIGHT}")
    assert verify.main([str(tmp_path)]) == 0
    out = capfd.readouterr().out
    assert out.startswith("yours: 1 of 34\n") and "01_arrays.linear_backward" not in out
    assert float(re.search(r"relative error (\S+)", out)[1]) < 1e-6
    assert re.search(r"sources: [0-9a-f]{64}\n", out)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_file_that_does_more_than_define_is_refused_and_named(text, tmp_path, capfd):
    place = tmp_path / "outside"
    (tmp_path / "01_arrays.linear_backward.py").write_text(f"{HEADER}f\n\n{text.format(place=place.as_posix())}{RIGHT}")
    assert verify.main([str(tmp_path)]) == 1
    out = capfd.readouterr().out
    assert out.startswith("yours: 0 of 34\n")
    assert re.search(r"01_arrays.linear_backward: .*(PermissionError: .* is refused|MemoryError)", out)
    assert not place.exists()


def test_an_unknown_folder_is_one_line(tmp_path, capsys):
    assert verify.main([str(tmp_path / "nowhere")]) == 2
    assert capsys.readouterr().out.endswith("nowhere is not a folder.\n")

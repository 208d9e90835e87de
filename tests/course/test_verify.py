"""``course.verify``: kept functions proved again, where they may change nothing; bad ones are named."""

import re
import sys

import pytest
from kept_files import kept_file

from course import verify
from course.assembly import assembled

SLOW = "def f(*given):\n    return [right(*given) for _ in range(100)][0]\n"
PLANTED = {
    "01_arrays.linear_backward": ("open({place!r}, 'w').write('x')\n", "PermissionError: open is refused"),
    "03_softmax.loss_backward": ("import os\nos.system('echo x > {place}')\n", "PermissionError: os.system is refused"),
    "03_softmax.smoothed_loss": ("def f(*given):\n    open({place!r}, 'w')\n", "PermissionError: open is refused"),
    "04_attention.weights": ("def f(q, k, mask):\n    while True:\n        pass\n", "had not returned after 5 s"),
    "05_heads.split": ("def f(*given):\n    return right(*given) + table[0]\n", "name 'table' is not defined"),
    "07_feed_forward.backward": ("import sys\nsys.exit()\n", "it does not run (SystemExit"),
    "11_training.adam_step": (SLOW, "slow: "),
}
if sys.platform == "linux":  # elsewhere memory is not limited
    PLANTED["07_feed_forward.forward"] = "def f(*given):\n    return [0] * 10**11\n", "raised MemoryError"
OTHERS = {
    "08_positions.sinusoids": (b"\xff\xfe", "it cannot be read ('utf-8' codec"),
    "09_transformer.shift": (None, "not yours yet\n"),
}


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A folder with every function of the model."""
    folder = tmp_path / "mine"
    folder.mkdir()
    monkeypatch.setenv("MINITRANSFORMER_MINE", str(folder))
    for name in assembled()[1]:
        (folder / f"{name}.py").write_text(kept_file(name))
    return folder


def test_every_bad_file_is_named_in_one_line_and_the_rest_is_proved(mine, tmp_path, capfd):
    place = tmp_path / "outside"
    for name, (text, _) in PLANTED.items():
        (mine / f"{name}.py").write_text(kept_file(name, text.format(place=place.as_posix())))
    for name, (text, _) in OTHERS.items():
        (mine / f"{name}.py").unlink()
        if text is not None:
            (mine / f"{name}.py").write_bytes(text)
    assert verify.main([str(mine)]) == 1
    first, *lines, source, gradient, copies = capfd.readouterr().out.splitlines()
    assert not place.exists()
    assert first == f"yours: {43 - len(PLANTED | OTHERS) + 1} of 43"  # the slow one counts
    named = dict(line.strip().split(": ", 1) for line in lines)
    assert sorted(named) == sorted(PLANTED | OTHERS)
    for name, (_, words) in (PLANTED | OTHERS).items():
        assert words in f"{named[name]}\n", name
    assert re.search(r"sources: [0-9a-f]{64}$", source) and "copies" in copies
    assert float(re.search(r"relative error (\S+)", gradient)[1]) < 1e-6


def test_what_is_right_alone_and_fails_in_the_model_is_one_line(mine, capfd):
    for path in mine.glob("my_transformer.*"):  # what is kept there calls the solutions, as imported
        path.unlink()
    raises = "def f(*given):\n    assert given[0].shape[1] != 13, 'too many'\n    return right(*given)\n"
    (mine / "03_softmax.smoothed_loss.py").write_text(kept_file("03_softmax.smoothed_loss", raises))
    assert verify.main([str(mine)]) == 1
    *_, last = capfd.readouterr().out.splitlines()
    assert last.startswith("the model of them does not run: AssertionError: too many, raised in f, `assert given[0]")


def test_an_unknown_folder_is_one_line(tmp_path, capsys):
    assert verify.main([str(tmp_path / "nowhere")]) == 2
    assert capsys.readouterr().out.endswith("nowhere is not a folder.\n")

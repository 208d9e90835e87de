"""Every command on a recurrent model: a run from two text files, in one process and on two ranks."""

import subprocess
import sys

from tiny_run import final_state

from minitransformer.cli.main import main


def test_the_commands_plan_average_translate_evaluate_and_plot(recurrent_run, type_in, capsys):
    folder = recurrent_run
    mean, src, ref = (str(folder / name) for name in ("mean.npz", "val.en", "val.de"))
    model = ["--checkpoint", mean, "--device", "cpu"]
    assert main(["plan", str(folder / "run.toml")]) == 0
    assert "24,864 parameters" in capsys.readouterr().out
    assert main(["average", "--last", "2", str(folder / "run"), "-o", mean]) == 0
    type_in(b"one two\n\nfour\n")
    assert main(["translate", *model]) == 0
    assert capsys.readouterr().out.count("\n") == 4  # mean.npz's path, then three lines
    assert main(["evaluate", *model, "--src", src, "--ref", ref, "--beam-size", "2"]) == 0
    plot = ["plot", "attention", *model, "--src", "one two three", "-o", str(folder / "map.png")]
    assert main(plot) == 0 and (folder / "map.png").read_bytes()[:4] == b"\x89PNG"
    assert main([*plot, "--kind", "encoder"]) == 2
    message = "the model must have attention encoder 1, got cross 1; change --kind or --layer"
    assert message in capsys.readouterr().err


def test_two_ranks_train_what_one_process_trains(recurrent_run, relative_error):
    other = ["--set", f"training.directory={recurrent_run}/ranks", "--set", "training.updates=20"]
    command = [sys.executable, *"-m minitransformer launch -n 2 -- train".split(), str(recurrent_run / "run.toml")]
    done = subprocess.run([*command, *other], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    one, two = (final_state(recurrent_run / name, 20)[0] for name in ("run", "ranks"))
    assert relative_error(two, one) < 1e-8

"""The benchmark of ranks: what it says where there is no MPI, and its tables."""

from benchmarks.scaling import __main__ as scaling


def test_without_mpi_nothing_is_measured_for_a_reason(monkeypatch, capsys):
    monkeypatch.setattr(scaling.importlib.util, "find_spec", lambda name: None)
    assert scaling.main(["--quick"]) == 0
    assert "scaling: not measured, mpi4py or an MPI is missing: pip install" in capsys.readouterr().out


def test_the_two_ways_to_sum_take_turns(monkeypatch):
    started = []

    def on_ranks(start, threads, **task):
        started.append(start)
        return [{"bytes": 4, "seconds": 7.0 - len(started)}]

    monkeypatch.setattr(scaling, "on_ranks", on_ranks)
    assert scaling.measure_sums(quick=False) == [{"bytes": 4, "launch": 2.0, "mpiexec": 1.0}]
    assert started == ["launch", "mpiexec"] * 3


def test_throughput_is_that_of_one_process_divided_by_the_time():
    steps = [{"size": "base", "parameters": 63_045_632, "one process": 2.0, "two ranks": 1.0}]
    text = "\n".join(scaling.markdown([{"bytes": 4096, "launch": 1e-3, "mpiexec": 2e-3}], steps))
    assert "| 4,096 | 1.000 | 2.000 |" in text
    assert "| base, 63,045,632 parameters | 2.000 (1.00) | 1.000 (2.00) |" in text

"""Which of how many ranks a process is, how it finds the others, and what it refuses."""

import sys
from contextlib import nullcontext
from itertools import count
from types import SimpleNamespace

import pytest
from rank_jobs import as_threads, check_error, in_threads, run
from recorded_cuda import Cuda, World
from tiny_run import tiny_config, tiny_corpus

from minitransformer.config import TrainingConfig
from minitransformer.distributed import ProcessGroup, init_process_group, process_group
from minitransformer.distributed.nccl import NcclCommunicator, pass_id_by_file
from minitransformer.distributed.process_group import LAUNCHERS, SLURM_JOB, find_ranks
from minitransformer.errors import ConfigError, MissingPackageError, RanksError
from minitransformer.training import trainer
from minitransformer.training.compatibility import check_same_job

SLURM = {"SLURM_JOB_ID": "12", "SLURM_STEP_ID": "0"}


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch):
    """The environment of a process that nothing has started."""
    names = {name for names in LAUNCHERS.values() for name in names}
    for name in names | set(SLURM_JOB) | {"PMIX_RANK", "WORLD_SIZE", "SLURM_JOB_NUM_NODES"}:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({}, (0, 1, 0)),
        ({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}, (3, 4, 1)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0"}, (1, 2, 0)),
        ({"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8", "SLURM_LOCALID": "1"}, (5, 8, 1)),
        ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1", "PMI_RANK": "1", "PMI_SIZE": "2"}, (1, 2, 1)),
        ({"SLURM_PROCID": "4", "SLURM_LOCALID": "2", "PMI_RANK": "4", "PMI_SIZE": "6"}, (4, 6, 2)),  # srun --mpi=pmi2
        ({"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "PMI_RANK": "1", "PMI_SIZE": "2"}, (1, 2, 1)),  # mpiexec in a step
        ({"SLURM_PROCID": "0"}, (0, 1, 0)),  # a batch script's own process
    ],
)
def test_rank_and_size_are_those_of_the_launcher(variables, found):
    assert find_ranks(variables) == found


@pytest.mark.parametrize(("rank", "size"), [("2", "2"), ("-1", "2"), ("x", "2"), ("0", "")])
def test_variables_that_are_no_rank_are_refused(rank, size):
    with pytest.raises(ConfigError, match=f"PMI_RANK must be in 0..PMI_SIZE - 1, got {rank} of {size}"):
        find_ranks({"PMI_RANK": rank, "PMI_SIZE": size})


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"RANK": "0", "WORLD_SIZE": "2"}, r"got ranks of torchrun \(WORLD_SIZE is 2\) without a rank"),
        (
            {"SLURM_JOB_NUM_NODES": "2", "SLURM_PROCID": "0"},
            r"got a job of several machines \(SLURM_JOB_NUM_NODES is 2\)",
        ),
    ],
)
def test_several_processes_that_nobody_numbered_are_refused(variables, words, no_launcher):
    for name, value in variables.items():
        no_launcher.setenv(name, value)
    with pytest.raises(ConfigError, match=f"must be started by `minitransformer launch`, mpiexec or srun, .*{words}"):
        init_process_group(print)
    assert init_process_group(print, 0, 1, "alone").size == 1


@pytest.mark.parametrize(
    "options", [(0, None, None), (None, 2, "a"), (2, 2, "a"), (-1, 2, "a"), (0, 0, "a"), (0, 2, None)]
)
def test_rank_size_and_job_are_given_together(options):
    with pytest.raises(ConfigError, match="--rank R --size N --job NAME must be given together, with R in 0..N - 1"):
        init_process_group(print, *options)


def test_a_rank_without_a_size_is_refused_in_one_line():
    command = [sys.executable, "-m", "minitransformer", "train", "x.toml", "--rank=0"]
    check_error(run(command), "train: ranks: --rank R --size N --job NAME must be given together")


def test_ranks_on_cpus_need_launch_or_mpi(no_launcher):
    for name, value in (SLURM | {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}).items():
        no_launcher.setenv(name, value)
    for group in (init_process_group(print, 1, 2, "x"), init_process_group(print)):
        assert (group.rank, group.size) == (1, 2)
        with pytest.raises(
            ConfigError, match="ranks on CPUs must be started by `minitransformer launch` or, on several"
        ):
            group.connect(TrainingConfig(micro_batches=2))


def test_sums_on_gpus_cannot_be_in_the_order_of_the_ranks():
    with pytest.raises(ConfigError, match="training.deterministic_reduce must be false on GPUs, got true; NCCL adds"):
        ProcessGroup(0, 2).connect(TrainingConfig(micro_batches=2, deterministic_reduce=True), on_gpu=True)


def test_more_ranks_than_micro_batches_are_refused():
    with pytest.raises(
        ConfigError, match="micro_batches must be at least the number of ranks, 3, got 2; start fewer, or set more"
    ):
        ProcessGroup(0, 3).connect(TrainingConfig(micro_batches=2))


@pytest.mark.parametrize(
    "changes",
    [{}, {"kernels": "simple"}, {"model": {"p_drop": 0.2}}, {"data": {"max_length": 9}}, {"eps": 1e-8}],
    ids=str,
)
def test_ranks_with_another_setting_of_any_section_are_refused_but_for_paths_and_threads(changes):
    def compare(ranks):
        own = {"threads": 1 + ranks.rank} | (changes if ranks.rank else {})
        check_same_job(ranks, tiny_config(f"folder of rank {ranks.rank}", **own), "")

    with pytest.raises(RanksError, match="rank 1 must have rank 0's value of") if changes else nullcontext():
        as_threads(2, compare)


def test_ranks_with_several_other_settings_all_name_the_first():
    """A fault: each names another, in the order of a set, which Python draws anew for each process."""
    others = {"model": {"p_drop": 0.2}, "seed": 2, "warmup_steps": 9, "beta1": 0.8, "beta2": 0.9, "eps": 1e-8}

    def compare(ranks):
        with pytest.raises(RanksError, match="rank 1 must have rank 0's value of model.p_drop, 0.1, got 0.2"):
            check_same_job(ranks, tiny_config("same", **(others if ranks.rank else {})), "")

    as_threads(2, compare)


def test_ranks_that_begin_with_other_parameters_are_refused(tmp_path, no_launcher):
    """A fault: training.init_from was another file on another machine, and each rank trained a model of its own."""
    numbers = count()
    no_launcher.setattr(trainer, "initialize", lambda model, *_: model.parameters.data.fill(next(numbers)))

    def begin(ranks):
        group = SimpleNamespace(connect=lambda settings, on_gpu: ranks)
        with pytest.raises(RanksError, match="rank 1 must have rank 0's value of the initial parameters .hash; drawn,"):
            trainer.Trainer(tiny_config(tmp_path), tiny_corpus(), progress=False, process_group=group)

    as_threads(2, begin)


def test_ranks_of_mpi_without_mpi4py_are_refused_once_on_each_machine(no_launcher):
    no_launcher.setenv("PMI_RANK", "1")
    no_launcher.setenv("PMI_SIZE", "2")
    no_launcher.setattr(process_group.importlib.util, "find_spec", lambda name: None)
    no_launcher.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(SystemExit):
        init_process_group(print)
    no_launcher.setenv("MPI_LOCALRANKID", "0")
    with pytest.raises(
        MissingPackageError, match="mpi4py must be installed for ranks that MPI starts, got none; run pip"
    ):
        init_process_group(print)


@pytest.mark.parametrize("by_file", [True, False])
def test_gpus_join_by_the_id_of_rank_0(tmp_path, monkeypatch, by_file):
    """Through shared memory or, where machines share nothing else, through a file that is gone afterwards."""
    world = World(2)

    class Joined(NcclCommunicator):
        def __init__(self, rank, size, board, **options):
            cuda = Cuda(world, rank)
            super().__init__(rank, size, board, cupy=cuda, nccl=cuda.nccl, **options)

        def join(self, unique_id):
            super().join(unique_id)
            world.barrier.wait()  # as NCCL itself does

    monkeypatch.setattr(process_group, "NcclCommunicator", Joined)
    settings = tiny_config(tmp_path / "run").training

    def connect(group):
        ranks = group.connect(settings, on_gpu=True)
        assert isinstance(ranks, NcclCommunicator)
        return ranks.gather_text(f"rank {ranks.rank}")

    if by_file:
        found = in_threads(2, lambda rank: connect(ProcessGroup(rank, 2, rank, job="1")))
    else:
        found = as_threads(2, lambda local: connect(ProcessGroup(local.rank, 2, local.rank, shared=local.board)))
    assert found == [["rank 0", "rank 1"]] * 2
    assert not list(tmp_path.rglob("nccl_id*"))


def test_a_rank_whose_gpu_cannot_be_used_is_named_by_all(tmp_path):
    """With device = auto. A fault: it went on on the CPU, and took NCCL's id for rank 0's settings."""
    settings = tiny_config(tmp_path).training

    def connect(local):
        with pytest.raises(RanksError, match="rank 1 must be on a GPU, as rank 0 is, got a CPU; --device cuda says"):
            ProcessGroup(local.rank, 2, shared=local.board).connect(settings, on_gpu=local.rank == 0)

    as_threads(2, connect)


def test_a_start_of_a_slurm_job_has_a_name_of_its_own(no_launcher):
    for name, value in (SLURM | {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}).items():
        no_launcher.setenv(name, value)
    jobs = [init_process_group(print).job]
    for name in ("SLURM_STEP_ID", "SLURM_RESTART_COUNT", "SLURM_JOB_ID"):
        no_launcher.setenv(name, "7")
        jobs.append(init_process_group(print).job)
    assert jobs == ["12.0.0", "12.7.0", "12.7.7", "7.7.7"]


def test_the_id_of_the_same_job_is_taken_from_the_file_and_no_other(tmp_path):
    path = tmp_path / "run" / "nccl_id.json"
    with pytest.raises(
        ConfigError, match="must hold the NCCL id of job '7' within 0.3 s .*, got no such file; start all"
    ):
        pass_id_by_file(path, "7", None, 0.3)
    assert pass_id_by_file(path, "6", lambda: "ab", 5) == "ab"
    assert pass_id_by_file(path, "6", None, 5) == "ab"
    with pytest.raises(ConfigError, match="got that of job '6'; start all ranks of a job with the same --job"):
        pass_id_by_file(path, "7", None, 0.3)
    path.write_text("[1]")
    with pytest.raises(ConfigError, match="got another file"):
        pass_id_by_file(path, "7", None, 0.3)

"""Every launcher passes the rank in variables of its own; contradictions end in one clear line."""

import re
import socket
import subprocess
import sys

import pytest
from rank_jobs import TESTS, check_error, environment, free_port, mpiexec, run

from minitransformer.distributed.supervision.rank_info import RankInfo, find_rank_info, is_first_on_its_machine
from minitransformer.errors import ConfigError

pytestmark = pytest.mark.mpi

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "node7", "MASTER_PORT": "29500"}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}
MPICH = {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1"}
SRUN = {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4", "SLURM_LOCALID": "1"}


@pytest.mark.parametrize(
    ("variables", "by_mpi"),
    [(TORCHRUN, False), (OPEN_MPI, True), (MPICH, True), (SRUN, False), (SRUN | {"PMIX_RANK": "3"}, True)],
    ids=["torchrun", "Open MPI", "MPICH", "srun", "srun --mpi=pmix"],
)
def test_the_variables_of_every_launcher_give_the_rank(variables, by_mpi):
    info = find_rank_info(variables)
    assert (info.rank, info.size, info.local_rank, info.by_mpi) == (3, 4, 1, by_mpi)
    assert info.address == (("node7", 29500) if variables is TORCHRUN else None)
    assert not is_first_on_its_machine(variables)


@pytest.mark.parametrize(
    "one_machine",
    [
        TORCHRUN | {"LOCAL_WORLD_SIZE": "4"},
        TORCHRUN | {"MASTER_ADDR": "localhost"},
        TORCHRUN | {"MASTER_ADDR": "127.0.1.1"},
        TORCHRUN | OPEN_MPI | {"LOCAL_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"},
        SRUN | {"MASTER_ADDR": "node7", "MASTER_PORT": "29500", "SLURM_STEP_NUM_NODES": "1"},
        MPICH | {"MASTER_ADDR": "node7", "MASTER_PORT": "29500", "MPI_LOCALNRANKS": "4"},
    ],
)
def test_ranks_of_one_machine_meet_on_loopback(one_machine):
    assert find_rank_info(one_machine).address == ("127.0.0.1", 29500)


def test_the_token_is_read_and_not_shown():
    info = find_rank_info(TORCHRUN | {"MINITRANSFORMER_TOKEN": "sesame"})
    assert info.token == "sesame" and "sesame" not in repr(info)


TRAIN = [sys.executable, "-m", "minitransformer", "train", TESTS / "no_such_file.toml"]


def started(**variables: str) -> subprocess.Popen:
    return subprocess.Popen(list(map(str, TRAIN)), env=environment(**variables), stderr=subprocess.DEVNULL)


def test_ranks_of_several_machines_without_a_token_get_the_remedy():
    variables = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "10.1.2.3", "MASTER_PORT": "29500"}
    ended = run(TRAIN, **variables | {"LOCAL_RANK": "1"})  # the first rank of its machine reports the error
    assert (ended.code, ended.lines) == (2, [])
    ended = run(TRAIN, **variables)  # started by hand, perhaps alone on its machine
    assert ended.lines == [
        "minitransformer train: ranks: MINITRANSFORMER_TOKEN must be set, to the same secret on all machines, for "
        "ranks that meet at 10.1.2.3, got none; export MINITRANSFORMER_TOKEN=$(openssl rand -hex 32) where they are "
        "started, or MASTER_ADDR=127.0.0.1 on one machine"
    ]


def test_a_rank_with_another_token_is_refused_with_the_remedy():
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    first = started(RANK="0", MINITRANSFORMER_TOKEN="not UTF-8: \udcff", **address)
    ended = run(TRAIN, RANK="1", MINITRANSFORMER_TOKEN="another", **address)
    first.kill()
    first.wait()
    check_error(
        ended,
        rf"train: ranks: 127.0.0.1:{address['MASTER_PORT']} must know this job's token, got a process with another "
        "one; set the same MINITRANSFORMER_TOKEN for all ranks, or another MASTER_PORT$",
    )


def test_the_port_that_torchrun_itself_uses_is_avoided():
    taken = TORCHRUN | {"TORCHELASTIC_USE_AGENT_STORE": "True"}
    assert find_rank_info(taken).address == ("node7", 29501)
    assert find_rank_info(taken | {"MASTER_PORT": "65535"}).address == ("node7", 65534)


def test_a_process_that_no_launcher_started_is_rank_0_of_1():
    assert find_rank_info({}) == RankInfo(0, 1, 0)
    batch_script = {"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}  # of sbatch itself: srun has not started anything
    assert find_rank_info(batch_script).size == 1


def test_launchers_that_agree_may_be_nested():
    assert find_rank_info(SRUN | MPICH | TORCHRUN).size == 4


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        (
            MPICH | TORCHRUN | {"WORLD_SIZE": "8"},
            "rank and world size must be those of the launcher, got 3 of 8 from torchrun (RANK, WORLD_SIZE) and 3 of 4 "
            "from MPICH; unset one of them",
        ),
        ({"RANK": "0"}, "WORLD_SIZE must be set where RANK is, got no WORLD_SIZE"),
        ({"WORLD_SIZE": "2"}, "RANK must be set where WORLD_SIZE is, got no RANK"),
        (TORCHRUN | {"RANK": "4"}, "RANK must be in 0..WORLD_SIZE - 1, got 4 of 4"),
        (TORCHRUN | {"RANK": "two"}, "RANK must be a whole number, got 'two'"),
        (TORCHRUN | {"WORLD_SIZE": "9" * 5000}, "WORLD_SIZE must be a whole number, got '999"),
        (TORCHRUN | {"MASTER_PORT": "99999"}, "MASTER_PORT must be in 1..65535, got 99999"),
        (TORCHRUN | {"MASTER_ADDR": "node..7"}, "MASTER_ADDR must be a host name or an address, got 'node..7'"),
    ],
)
def test_contradictory_and_invalid_variables_are_refused(variables, words):
    with pytest.raises(ConfigError, match=re.escape(words)):
        find_rank_info(variables)


def test_a_world_size_other_than_the_launchers_is_reported_once():
    ended = run([mpiexec(), "-n", 3, *TRAIN], RANK="0", WORLD_SIZE="2")
    check_error(ended, "train: ranks: rank and world size must be those of the launcher, got 0 of 2", only=False)


def test_a_port_in_use_is_reported_once_and_ends_all_ranks():
    with socket.create_server(("", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = run([mpiexec(), "-n", 2, *TRAIN], MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    message = f"train: ranks: port {port} must be free at 127.0.0.1, got Address already in use"
    check_error(ended, message, only=False)
    assert ended.seconds < 20


def test_a_config_that_no_rank_can_read_is_reported_once():
    ended = run([mpiexec(), "-n", 2, *TRAIN])
    check_error(ended, "train: rank 0: .*no_such_file.toml: cannot be read: No such file")


def test_a_rank_with_another_world_size_ends_the_job():
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    other = started(RANK="1", WORLD_SIZE="3", **address)
    ended = run(TRAIN, RANK="0", WORLD_SIZE="2", **address)
    assert other.wait(20) == 2
    check_error(ended, r"train: rank 1 \(process \d+ on .*\) must be one of 2 ranks, got a world size of 3")


def test_the_mpirun_of_another_mpi_library_is_reported():
    mpiexec()
    ended = run(TRAIN, OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_SIZE="2")
    message = "train: ranks: MPI must know this process as rank 0 of 2, as its launcher does, got rank 0 of 1"
    check_error(ended, message, only=False)  # mpi4py itself warns, too


WITHOUT_MPI4PY = "import sys; sys.modules['mpi4py'] = None; "
WITHOUT_LIBRARY = """
import sys, types
class NoLibrary(types.ModuleType):
    def __getattr__(self, name):
        raise RuntimeError("cannot load MPI library\\ndetails")
sys.modules["mpi4py"] = NoLibrary("mpi4py")
"""


@pytest.mark.parametrize(
    ("without", "words"),
    [
        (WITHOUT_MPI4PY, "ranks: mpi4py must be installed for ranks that MPI starts, got none; run pip install"),
        (
            WITHOUT_LIBRARY,
            "ranks: mpi4py must find an MPI library, got none (cannot load MPI library); `pip install mpich` brings",
        ),
    ],
)
def test_a_missing_mpi_names_the_package_to_install(without, words):
    program = f"{without}\nfrom minitransformer.cli.main import main\nsys.exit(main(['train', 'x.toml']))"
    check_error(run([sys.executable, "-c", program], PMI_RANK="0", PMI_SIZE="2"), f"train: {re.escape(words)}")

"""One rank on one of two hosts: the supervisor passes an NCCL id by TCP, then the communicator keeps its contract.

python two_hosts.py COMMUNICATOR
"""

import base64
import sys

import numpy as np
from contract import check

from minitransformer.config import TrainingConfig
from minitransformer.distributed import init_process_group

if __name__ == "__main__":
    format_error = lambda error: (f"{type(error).__name__}: {error}", 1)  # noqa: E731
    with init_process_group(lambda message: print(message, file=sys.stderr), format_error) as process_group:
        ranks = process_group.connect(TrainingConfig(communicator=sys.argv[1], micro_batches=2, timeout=20))
        unique_id = np.random.default_rng(3).integers(-128, 128, 128).astype(np.int8)  # of the size of NCCL's
        if ranks.rank == 0:
            process_group.client.put("nccl", base64.b64encode(unique_id).decode())
        received = np.frombuffer(base64.b64decode(process_group.client.get("nccl")), np.int8)
        np.testing.assert_array_equal(received, unique_id)
        check(ranks)
        whole = np.full(500_000, ranks.rank + 1.0)
        ranks.all_reduce_sum(whole)
        assert (whole == 3.0).all()
        if ranks.rank == 0:
            print("the hosts agree", flush=True)

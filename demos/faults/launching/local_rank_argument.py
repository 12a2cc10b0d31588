"""The DDP demo with one mistake: it expects --local_rank, which no launcher passes any more. (Doctor: A17)

python -m torch.distributed.launch --nproc-per-node=2 demos/faults/launching/local_rank_argument.py

Since torch 2.0, torch.distributed.launch passes --local-rank with a dash, and torchrun passes nothing at all: the parser ends
every rank with "unrecognized arguments: --local-rank=0".

The fix: torchrun, and local_rank = int(os.environ["LOCAL_RANK"])
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

import ddp


class Training(ddp.Training):
    """The healthy training run, which is never reached."""

    name = "local-rank-argument"


if __name__ == "__main__":
    parser = ddp.arguments()
    parser.add_argument("--local_rank", type=int, default=0)  # the mistake
    Training(parser.parse_args()).train()

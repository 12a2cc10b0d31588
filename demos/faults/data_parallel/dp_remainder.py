"""The DataParallel demo with one mistake: a batch that does not divide among the GPUs. (Doctor: B02)

python demos/faults/data_parallel/dp_remainder.py

5 samples on 2 GPUs are 3 and 2; on 4 GPUs they are 2, 2 and 1, and the fourth GPU idles. The largest piece sets the pace.

The fix: a batch size that is a large multiple of the number of GPUs.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

import data_parallel


class Training(data_parallel.Training):
    """The healthy training."""

    name = "dp-remainder"


if __name__ == "__main__":
    data_parallel.main(Training, batch_size=5, lr=0.002)  # the mistake: 5; the healthy demo uses 128

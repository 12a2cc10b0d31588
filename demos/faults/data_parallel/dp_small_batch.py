"""The DataParallel demo with one mistake: a batch smaller than the number of GPUs. (Doctor: B01)

python demos/faults/data_parallel/dp_small_batch.py

With one sample, only GPU 0 works. nn.DataParallel splits the batch with torch.chunk: ceil(batch / GPUs) samples per piece,
until none are left.

The fix: a batch size that is a large multiple of the number of GPUs.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

import data_parallel


class Training(data_parallel.Training):
    """The healthy training."""

    name = "dp-small-batch"


if __name__ == "__main__":
    # The mistake: a batch of 1, left over from a test; the healthy demo uses 128. (Such noisy steps must be small.)
    data_parallel.main(Training, batch_size=1, lr=0.001)

"""The DataParallel demo with one mistake: the test after each epoch runs on one GPU. (Doctor: B13)

python demos/faults/data_parallel/eval_on_one_gpu.py

Training uses all GPUs; then they wait while only GPU 0 goes through the test images, in small batches.

The fix: correct(self.parallel, ...), because the wrapper splits test batches as well; or larger test batches.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

from torch.utils.data import ConcatDataset, DataLoader

import data_parallel
from progress import correct


class Training(data_parallel.Training):
    """Tests without the wrapper."""

    name = "eval-on-one-gpu"

    def accuracy(self, batches: DataLoader[Any]) -> float:
        """Return the share of test images that the model classifies correctly."""
        again: DataLoader[Any] = DataLoader(ConcatDataset([batches.dataset] * 8), batch_size=16)  # large enough to matter
        right, seen = correct(self.model, again, self.device)  # the mistake: the module, not the wrapper
        return right / seen


if __name__ == "__main__":
    data_parallel.main(Training, train_samples=4000)

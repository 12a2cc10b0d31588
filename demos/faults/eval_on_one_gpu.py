"""The DataParallel demo with one mistake: the test after each epoch runs on one GPU. (Doctor: B13)

python demos/faults/eval_on_one_gpu.py

The training uses all GPUs; then they wait while GPU 0 goes through the test images alone, in small batches.

The fix: correct(self.parallel, ...): the wrapper cuts test batches as well; or larger test batches.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the healthy demo lies one folder up

from torch.utils.data import ConcatDataset, DataLoader

import data_parallel
from progress import correct


class Training(data_parallel.Training):
    """Tests past the wrapper."""

    name = "eval-on-one-gpu"

    def accuracy(self, batches: DataLoader[Any]) -> float:
        """Return which share of the test images the model gets right."""
        again: DataLoader[Any] = DataLoader(ConcatDataset([batches.dataset] * 8), batch_size=16)  # a test set worth the name
        right, seen = correct(self.model, again, self.device)  # the mistake: the module, not the wrapper
        return right / seen


if __name__ == "__main__":
    data_parallel.main(Training, train_samples=4000)

"""The DDP demo with one mistake: the wrapper's weights are saved and loaded into the bare module. (Doctor: C13)

torchrun --nproc-per-node=2 demos/faults/ddp/state_dict_prefix.py

The names in the file start with "module.", because DDP is a module around the module: load_state_dict finds none of the names
that it expects, and fails only when the training is over and the next script starts.

The fix: torch.save(parallel.module.state_dict(), path)
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

import torch

import ddp


class Training(ddp.Training):
    """Saves the wrapper's prefix with the weights."""

    name = "state-dict-prefix"

    def save(self) -> None:
        """Save, then load for the next test."""
        if self.rank == 0:
            with tempfile.TemporaryDirectory() as folder:
                path = self.args.save or Path(folder) / "model.pt"
                torch.save(self.parallel.state_dict(), path)  # the mistake
                self.build().load_state_dict(torch.load(path, weights_only=True))


if __name__ == "__main__":
    ddp.main(Training, steps=200)

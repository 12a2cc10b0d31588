"""The single-GPU demo with one mistake: a mask that lists a GPU twice. (Doctor: A05)

CUDA_VISIBLE_DEVICES=0,0 python demos/faults/launching/mask_with_a_repeat.py

A GPU listed twice silently empties the whole list: torch.cuda.is_available() is False, and the usual ``"cuda" if
torch.cuda.is_available() else "cpu"`` trains on the CPU. (Virtual GPUs follow the same rule.)

The fix: CUDA_VISIBLE_DEVICES=0,1
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

import torch

import devices
import single


def take(index: int) -> devices.Place:
    """Return the GPU, else the CPU: training runs either way, which hides the mistake."""
    return healthy_take(index) if devices.count() else devices.Place(torch.device("cpu"))


if __name__ == "__main__":
    print(f"CUDA_VISIBLE_DEVICES={os.environ.get('CUDA_VISIBLE_DEVICES')}: {devices.count()} devices")
    healthy_take, devices.take = devices.take, take
    single.main()

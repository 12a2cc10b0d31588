"""What tests on real GPUs need."""

from __future__ import annotations

import ctypes

import pytest


@pytest.fixture
def needs_cuda() -> None:
    """Skip a test unless torch can use a GPU. Without a driver, torch is not even imported: it takes 2 s of CPU."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        pytest.skip("there is no CUDA driver: libcuda.so.1 is missing")
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA device")

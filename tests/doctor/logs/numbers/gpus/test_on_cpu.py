"""Trainings that run on the CPU beside GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doctor.logs.numbers.logs import found

STEPS = [f"step {at} loss {2 / (at + 1):.3f}" for at in range(8)]
UNUSED = [f"{line}  mem GPU 0 MiB" for line in STEPS]


@pytest.mark.parametrize(
    "lines",
    {
        "a device": ["SLURM_JOB_ID=3 --gres=gpu:2", "Using device: cpu", *STEPS],
        "in Spanish": ["GPUs asignadas por el planificador: 2", "Dispositivo: cpu", *STEPS],
        "in German": ["2 x NVIDIA A100", "Gerät: cpu", *STEPS],
        "an object": ["GPU 0: NVIDIA A40 (UUID: GPU-1)", "args: device=device(type='cpu')", *STEPS],
        "Ray and Flower": ["resources: {'CPU': 32.0, 'GPU': 2.0}", "[client 8] resnet18 on cpu | loss 1.9", *STEPS],
        "CUDA": ["srun --gpus-per-node=4 python train.py", "cuda available: False", *STEPS],
        "Ultralytics": ["Ultralytics 8.3.40 Python-3.11.9 torch-2.5.1+cu124 CPU (AMD EPYC 7543)", *STEPS],
        "a scaler": ["UserWarning: torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", *STEPS],
    }.values(),
)
def test_a_training_on_the_cpu(lines: list[str], tmp_path: Path) -> None:
    finding = found(tmp_path, lines, "A12")
    assert finding is not None
    assert finding.confidence == ("possible" if finding.title == "Training runs on the CPU" else "likely")
    assert finding.title.startswith("Training runs on the CPU")


def test_without_a_word_about_gpus_the_cpu_may_be_meant(tmp_path: Path) -> None:
    assert found(tmp_path, ["device: cpu", *STEPS], "A12") is None
    assert found(tmp_path, ["TPU available: False, using: 0 TPU cores", "--gres=gpu:2", *STEPS], "A12") is None
    assert found(tmp_path, ["--gres=gpu:2", "device: cpu", "done"], "A12") is None, "nothing is trained"
    assert (
        found(
            tmp_path, ["--gres=gpu:2", "loading weights to device cpu", *(f"{line} GPU mem 8123 MiB" for line in STEPS)], "A12"
        )
        is None
    )
    assert found(tmp_path, ["--gres=gpu:2", "centers.device = cpu:0", *STEPS], "A12") is None


def test_gpu_memory_that_stays_empty(tmp_path: Path) -> None:
    finding = found(tmp_path, ["device: cpu", *UNUSED], "A12")
    assert finding is not None
    assert (finding.confidence, finding.evidence[1].text) == ("possible", "GPU memory in use: 0, in 8 lines")
    moved = found(tmp_path, ["device: cuda:0 (NVIDIA A40)", *UNUSED], "A13")
    assert moved is not None
    assert moved.confidence == "likely"
    assert found(tmp_path, ["device: cuda:0", *UNUSED[:4]], "A13") is None
    assert found(tmp_path, ["device: cuda:0", *UNUSED, "step 9 loss 0.1  mem GPU 2110 MiB"], "A13") is None

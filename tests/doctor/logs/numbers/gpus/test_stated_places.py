"""What lines state of the GPUs of a run: maps of layers, GPUs without a rank, and free memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doctor.logs.numbers.logs import found

LOSSES = [f"{{'loss': {2 - step / 100:.3f}, 'epoch': 0.0{step}}}" for step in range(1, 6)]


def layer_map(gpus: int, layers: int = 8) -> str:
    places = {"model.embed_tokens": 0} | {f"model.layers.{layer}": layer * gpus // layers for layer in range(layers)}
    return str(places | {"lm_head": gpus - 1})


def test_a_map_that_spreads_layers(tmp_path: Path) -> None:
    finding = found(tmp_path, [layer_map(4), *LOSSES], "A10")
    assert finding is not None
    assert finding.title == "Layers are spread over several GPUs, which work one at a time"
    assert finding.evidence[0].text == "a map puts layers on GPUs 0, 1, 2, 3"
    assert finding.confidence == "possible"
    assert found(tmp_path, [layer_map(1), *LOSSES], "A10") is None
    assert found(tmp_path, [layer_map(4), "answers: 12"], "A10") is None


def lightning(ranks: int, gpus: int, local: int | None = None) -> list[str]:
    seen = ",".join(map(str, range(gpus)))
    started = f"All distributed processes registered. Starting with {ranks} processes"
    return [started, *(f"LOCAL_RANK: {rank} - CUDA_VISIBLE_DEVICES: [{seen}]" for rank in range(local or ranks))]


def test_lightning_with_fewer_ranks_than_gpus(tmp_path: Path) -> None:
    finding = found(tmp_path, lightning(2, 8), "A02")
    assert finding is not None
    assert (finding.title, finding.confidence) == ("Only 2 ranks started, and 8 GPUs are visible", "possible")
    assert finding.evidence[0].text == "Lightning started 2 processes"
    one = found(tmp_path, lightning(1, 8), "A02")
    assert one is not None
    assert one.evidence[0].text == "Lightning started 1 process"
    assert found(tmp_path, lightning(8, 8), "A02") is None
    assert found(tmp_path, lightning(4, 8, local=2), "A02") is None, "ranks on several nodes"


FREE = ["[rank{0}] pid=7041{0} device=cuda:{0} free={1}GiB total={2}GiB", "rank {0}: free {1} GB of {2} GB"]


@pytest.mark.parametrize("line", FREE)
def test_one_gpu_with_less_free_memory(line: str, tmp_path: Path) -> None:
    finding = found(tmp_path, [line.format(rank, 26.2 if rank == 1 else 47.1, 47.5) for rank in range(4)], "H03")
    assert finding is not None
    assert (finding.title, finding.confidence) == ("Another program may hold 44% of the memory of GPU 1", "possible")
    assert finding.evidence[0].text == "free at the start: 26.2 of 47.5"
    for free in ([47.1, 45.0, 47.1, 47.1], [26.0, 26.2, 26.0, 26.0], [47.1, 26.2, 30.0, 47.1]):
        assert found(tmp_path, [line.format(*item, 47.5) for item in enumerate(free)], "H03") is None
    later = [*(line.format(rank, 47.1, 47.5) for rank in range(4)), line.format(1, 26.2, 47.5)]
    assert found(tmp_path, later, "H03") is None, "what the run itself takes later"
    totals = [line.format(0, 79.0, 79.1), line.format(1, 23.4, 23.6)]
    assert found(tmp_path, totals, "H03") is None, "GPUs of two sizes"


def test_a_map_with_ranges_of_layers(tmp_path: Path) -> None:
    layers = "{'model.embed_tokens': 0, 'model.layers.0-8': 0, 'model.layers.9-19': 1, 'model.norm': 1}"
    log = [f"hf_device_map: {layers}", *(f"{{'loss': {2 - at / 10}, 'epoch': 0.{at}}}" for at in range(5))]
    assert found(tmp_path, log, "A10") is not None

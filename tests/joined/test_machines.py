"""Machines that are named twice."""

from __future__ import annotations

from dataclasses import replace

from gputop.joined.machines import named_twice, once_each
from gputop.joined.runs import Seen
from tests import samples


def seen(host: str, *, hostname: str = "gpu1", boot_id: str = "b1", first_gpu: int = 0, source: str = "nvml") -> Seen:
    base = samples.snapshot()
    devices = tuple(replace(samples.device(index), uuid=f"GPU-{first_gpu + index}") for index in range(4))
    machine = replace(base.host, hostname=hostname, boot_id=boot_id, source=source)  # type: ignore[arg-type]
    return Seen(host, replace(base, host=machine, devices=devices))


def test_a_machine_with_two_names_counts_once() -> None:
    both = (seen("gpu1"), seen("10.0.0.1"))
    assert named_twice(both) == {"10.0.0.1": "gpu1"}
    assert [one.host for one in once_each(both)] == ["gpu1"]
    assert named_twice((replace(both[0], current=False), both[1])) == {"gpu1": "10.0.0.1"}, "the one that has a link"


def test_what_only_looks_like_one_machine_counts_twice() -> None:
    first = seen("a")
    assert not named_twice((first, seen("b", boot_id="b2"))), "a copy of a disk"
    assert not named_twice((first, seen("b", first_gpu=4))), "pods on one machine"
    assert not named_twice((first, seen("b", hostname="pod-2"))), "pods that share GPUs"
    assert not named_twice((first, seen("bob@a"))), "another user has other runs"
    assert not named_twice((seen("a", source="virtual"), seen("b", source="virtual")))

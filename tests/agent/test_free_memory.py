"""Memory that was freed between objects that stay goes back to the system."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from gputop.agent import serving
from gputop.snapshot import Snapshot
from tests import REPOSITORY, samples

FREES = """
from gputop.agent.one_heap import give_back
from tests.tui.whole_memory import own_mib
kept = [bytearray(1000) for _ in range(40_000)][::100]
before = own_mib("self")
give_back()
print(before - own_mib("self"))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library decides itself")
def test_memory_between_objects_that_stay_is_given_back() -> None:
    run = subprocess.run([sys.executable, "-c", FREES], capture_output=True, text=True, check=True, cwd=REPOSITORY)
    assert float(run.stdout) > 20


class StillSampler:
    """Takes the same snapshot again and again."""

    interval_s = 0.001

    def take(self) -> Snapshot:
        return samples.snapshot()

    def keep_gpus(self, snapshot: Snapshot) -> None:
        pass


def test_the_sampler_gives_freed_memory_back_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[bool] = []
    monkeypatch.setattr(serving, "GIVEN_BACK_S", 0.0)
    monkeypatch.setattr(serving, "give_back", lambda: given.append(True))

    def write(line: str) -> None:
        if len(given) > 2:
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        serving.serve(StillSampler(), write)  # type: ignore[arg-type]

"""An out-of-memory error on a real GPU: the lines that hold the memory, by torch's own allocator."""

from __future__ import annotations

import pytest

from gputop.facts.table import Facts
from tests.tracking.kit import Home, home

assert home

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("needs_cuda")]

SCRIPT = """
import gputop, torch
gputop.init()
torch.cuda.memory._record_memory_history("state", stacks="python")
kept = []
def hoard():
    kept.append(torch.empty(1 << 28, dtype=torch.uint8, device="cuda"))  # 256 MiB
hoard()
hoard()
torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
"""


def test_the_line_that_holds_most_is_named(home: Home) -> None:
    code, _, errors = home.run(SCRIPT)
    assert code == 1, errors
    found = Facts(home.only_run().ranks[0].facts).out_of_memory
    assert found is not None
    assert found.allocated_bytes is not None
    assert found.allocated_bytes >= 1 << 29
    assert found.lines[0].line is not None
    assert found.lines[0].line.endswith("hoard")
    assert found.lines[0].bytes == 1 << 29

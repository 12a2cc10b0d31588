"""A Python that was built on an older Linux lacks names of newer system calls: tracking goes on without what needs them."""

from __future__ import annotations

import pytest

from tests.packages import needs
from tests.tracking.kit import Home, home

assert home

SCRIPT = """
import fcntl, os
for module in (fcntl, os):
    for name in [name for name in vars(module) if "SEAL" in name or "MFD" in name or name == "memfd_create"]:
        delattr(module, name)
import gputop
gputop.init(name="mine")
import torch
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    net(torch.ones(2, 4)).square().mean().backward()
    optimizer.step()
print("end")
"""


@needs("torch")
@pytest.mark.warm
def test_a_python_without_memfd_is_tracked(home: Home) -> None:
    """``gputop.init`` raised, as the names were looked up when a module of gputop was imported."""
    code, out, err = home.run(SCRIPT, RANK="0", WORLD_SIZE="1")
    assert (code, out, err) == (0, "end\n", "")
    assert home.only_run().ranks[0].step == 2

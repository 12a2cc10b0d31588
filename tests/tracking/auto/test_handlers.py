"""A script that handles signals in Python: what its handlers raise reaches it, also where Python would drop it for our sake."""

from __future__ import annotations

import pytest

from tests.packages import needs
from tests.tracking.kit import Home, home

assert home
pytestmark = needs("torch")

SCRIPT = """
import gc, signal, sys, gputop, torch
if sys.argv[1] == "handles":
    signal.signal(signal.SIGUSR1, lambda *_: None)
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    net(torch.ones(2, 4)).square().mean().backward()
    optimizer.step()
print(sum(each.__module__.startswith("gputop") for each in gc.callbacks))
"""


@pytest.mark.warm
@pytest.mark.parametrize(("kind", "listeners"), [("handles", 0), ("handles none", 1)])
def test_garbage_collections_are_timed_only_where_no_handler_can_raise_meanwhile(home: Home, kind: str, listeners: int) -> None:
    """Python drops what a handler raises while a listener of the garbage collector runs."""
    code, out, err = home.run(SCRIPT, kind)
    assert (code, out, err) == (0, f"{listeners}\n", "")

"""What torch 2.1 and 2.2 have in another place: tracking finds it there."""

from __future__ import annotations

import pytest

from tests.packages import needs
from tests.tracking.kit import Home, home

assert home

pytestmark = [needs("torch"), pytest.mark.warm]

SCALED = """
import torch
{}
import gputop
{}
gputop.init(name="mine")
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.001)
scaler = Scaler("cpu", init_scale=1024.0)
for _ in range(3):
    optimizer.zero_grad()
    loss = net(torch.ones(2, 4)).square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(loss.item())
"""
BEFORE_2_2 = (
    """
Scaler, compiler = torch.amp.GradScaler, torch.compiler
torch._utils.is_compiling = compiler.is_compiling  # without its warning of today
torch.compiler = None
""",
    "torch.compiler = compiler  # which torch itself needs",
)
NOWHERE = (
    """
Scaler, compiler, asks = torch.amp.GradScaler, torch.compiler, torch._utils.is_compiling
torch.compiler = None
del torch._utils.is_compiling
""",
    "torch.compiler, torch._utils.is_compiling = compiler, asks",
)
BEFORE_2_3 = (
    """
Scaler = torch.cuda.amp.grad_scaler.GradScaler = torch.amp.grad_scaler.GradScaler
del torch.amp.grad_scaler.GradScaler
""",
    "",
)


@pytest.mark.parametrize("changes", [BEFORE_2_2, NOWHERE, BEFORE_2_3], ids=["compiling", "compiling, nowhere", "scaler"])
def test_a_torch_that_has_it_elsewhere_is_tracked(home: Home, changes: tuple[str, str]) -> None:
    code, out, err = home.run(SCALED.format(*changes))
    assert (code, err) == (0, "")
    (rank,) = home.only_run().ranks
    assert rank.step == 2
    assert rank.metrics["auto/loss"] == pytest.approx(float(out.split()[-1]))

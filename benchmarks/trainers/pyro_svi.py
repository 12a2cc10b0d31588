"""Variational inference by Pyro: an optimizer for each parameter, stepped together.

Needs: pyro
Loss: mean
"""

import pyro
import pyro.distributions as dist
import record  # noqa: F401
import torch
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoNormal
from pyro.optim import Adam

x = torch.randn(64, 3)
y = x @ torch.tensor([1.0, -2.0, 0.5]) + 0.1 * torch.randn(64)


def model(x, y):
    weight = pyro.sample("weight", dist.Normal(torch.zeros(3), 1.0).to_event(1))
    noise = pyro.sample("noise", dist.LogNormal(0.0, 1.0))
    with pyro.plate("data", len(x)):
        pyro.sample("observed", dist.Normal(x @ weight, noise), obs=y)


pyro.set_rng_seed(0)
svi = SVI(model, AutoNormal(model), Adam({"lr": 0.02}), Trace_ELBO())
for step in range(60):
    loss = svi.step(x, y)
    if step % 10 == 0:
        print(step, loss)

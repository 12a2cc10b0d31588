"""Exact regression by GPyTorch, with Adam.

Needs: gpytorch
Loss: mean
"""

import gpytorch
import record  # noqa: F401
import torch


class Exact(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


x = torch.linspace(0, 1, 60)
y = torch.sin(x * 6) + torch.randn(60) * 0.1
likelihood = gpytorch.likelihoods.GaussianLikelihood()
model = Exact(x, y, likelihood)
model.train()
likelihood.train()
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
for i in range(50):
    optimizer.zero_grad()
    loss = -mll(model(x), y)
    loss.backward()
    print(f"Iter {i + 1}/50 - Loss: {loss.item():.3f}")
    optimizer.step()

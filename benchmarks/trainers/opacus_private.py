"""Differential privacy by Opacus: a Poisson-sampled loader and gradients of each sample, in physical batches below the logical.

Needs: opacus
Loss: mean
"""

import warnings

import record  # noqa: F401
import torch
from opacus import PrivacyEngine
from opacus.utils.batch_memory_manager import BatchMemoryManager

warnings.simplefilter("ignore")
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(256, 8)
data = torch.utils.data.TensorDataset(x, (x.sum(1) > 0).long())
loader = torch.utils.data.DataLoader(data, batch_size=64)
model, optimizer, loader = PrivacyEngine().make_private(
    module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0
)
criterion = torch.nn.CrossEntropyLoss()
for epoch in range(8):
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=32, optimizer=optimizer) as parts:
        for inputs, targets in parts:
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            loss.backward()
            optimizer.step()
    print(epoch, loss.item())

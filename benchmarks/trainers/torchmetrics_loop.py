"""A loop of one's own with TorchMetrics on every batch, compute and reset after each epoch.

Needs: torchmetrics
Loss: sum
"""

import record  # noqa: F401
import torch
from torchmetrics import Accuracy, MeanMetric, MetricCollection
from torchmetrics.wrappers import MetricTracker

net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
data = torch.utils.data.TensorDataset(torch.randn(160, 8), torch.randint(0, 3, (160,)))
loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
metrics = MetricTracker(MetricCollection({"accuracy": Accuracy("multiclass", num_classes=3)}))
mean = MeanMetric()
for epoch in range(4):
    metrics.increment()
    mean.reset()
    for x, y in loader:
        optimizer.zero_grad()
        logits = net(x)
        loss = torch.nn.functional.cross_entropy(logits, y)
        metrics.update(logits, y)
        mean.update(loss)
        loss.backward()
        optimizer.step()
    print(epoch, mean.compute().item(), {name: float(value) for name, value in metrics.compute().items()})

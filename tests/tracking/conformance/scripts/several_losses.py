"""Two losses that run backward one after the other."""

import record
import torch

torch.manual_seed(0)
body, first, second = torch.nn.Linear(6, 8), torch.nn.Linear(8, 1), torch.nn.Linear(8, 3)
model = torch.nn.ModuleList([body, first, second])
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _step in range(40):
    x = torch.randn(16, 6)
    features = torch.relu(body(x))
    regression = torch.nn.functional.mse_loss(first(features), x.sum(1, keepdim=True))
    labels = torch.nn.functional.cross_entropy(second(features), (x[:, 0] > 0).long())
    optimizer.zero_grad()
    regression.backward(retain_graph=True)
    labels.backward()
    optimizer.step()
    record.step(regression=regression.item(), labels=labels.item(), lr=0.01)
record.done(model)
print("done")

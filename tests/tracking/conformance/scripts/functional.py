"""torch.func: gradients as a function, weights that the script updates itself."""

import record
import torch
from torch.func import functional_call, grad_and_value

torch.manual_seed(0)
model = torch.nn.Linear(6, 1)
weights = {name: value.detach() for name, value in model.named_parameters()}
x = torch.randn(64, 6)
y = x.sum(1, keepdim=True)


def loss_of(weights):
    return torch.nn.functional.mse_loss(functional_call(model, weights, (x,)), y)


for _ in range(40):
    gradients, loss = grad_and_value(loss_of)(weights)
    weights = {name: weights[name] - 0.1 * gradients[name] for name in weights}
    record.step(loss=loss.item())
record.done(*weights.values())
print("done")

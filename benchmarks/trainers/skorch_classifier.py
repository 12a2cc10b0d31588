"""A classifier of skorch.

Needs: skorch
Loss: mean
"""

import numpy as np
import record  # noqa: F401
import torch
from skorch import NeuralNetClassifier


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(20, 10), torch.nn.Linear(10, 2)

    def forward(self, x):
        return torch.softmax(self.second(torch.relu(self.first(x))), -1)


x = np.random.default_rng(0).normal(size=(400, 20)).astype("float32")
NeuralNetClassifier(Net, max_epochs=4, lr=0.1, batch_size=32, iterator_train__shuffle=True).fit(
    x, (x.sum(1) > 0).astype("int64")
)

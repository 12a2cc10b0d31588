"""The supervised runner of Catalyst: train and valid loaders, gradients accumulated over two batches.

Needs: catalyst
Loss: sum
"""

import os

import record  # noqa: F401
import torch
from catalyst import dl

net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
data = torch.utils.data.TensorDataset(torch.randn(160, 8), torch.randint(0, 3, (160,)))
dl.SupervisedRunner().train(
    model=net,
    criterion=torch.nn.CrossEntropyLoss(),
    optimizer=optimizer,
    loaders={
        "train": torch.utils.data.DataLoader(data, batch_size=8, shuffle=True),
        "valid": torch.utils.data.DataLoader(data, batch_size=32),
    },
    num_epochs=3,
    logdir=os.environ["WORK"],
    engine=dl.CPUEngine(),
    verbose=True,
)

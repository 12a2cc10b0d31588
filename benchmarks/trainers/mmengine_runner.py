"""A runner of MMEngine that accumulates over two batches.

Needs: mmengine
Loss: sum
"""

import os

import record  # noqa: F401
import torch
from mmengine.model import BaseModel
from mmengine.runner import Runner


class Net(BaseModel):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 3)

    def forward(self, x, y, mode):
        output = self.layer(x)
        if mode == "loss":
            return {"loss_class": torch.nn.functional.cross_entropy(output, y), "loss_size": output.pow(2).mean() * 0.01}
        return output, y


data = torch.utils.data.TensorDataset(torch.randn(160, 8), torch.randint(0, 3, (160,)))
Runner(
    model=Net(),
    work_dir=os.environ["WORK"],
    train_dataloader=torch.utils.data.DataLoader(data, batch_size=8, shuffle=True),
    optim_wrapper={"type": "OptimWrapper", "optimizer": {"type": "SGD", "lr": 0.1}, "accumulative_counts": 2},
    train_cfg={"by_epoch": True, "max_epochs": 3},
    randomness={"seed": 0},
).train()

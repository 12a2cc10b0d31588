"""A loop that changes what the environment and torch were set to, and collects garbage in a step."""

import gc
import os

import torch

os.environ["CUDA_VISIBLE_DEVICES"] = ""
torch.set_float32_matmul_precision("high")
torch.backends.cudnn.benchmark = True
torch.autograd.set_detect_anomaly(True)
torch.manual_seed(0)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = torch.nn.LSTM(4, 4, batch_first=True)
        self.norm = torch.nn.BatchNorm1d(4)
        self.frozen = torch.nn.BatchNorm1d(4)
        self.head = torch.nn.Linear(4, 1).to(torch.bfloat16)

    def train(self, mode=True):
        super().train(mode)
        self.frozen.eval()
        return self

    def forward(self, inputs):
        with torch.autocast("cpu", enabled=False):  # some processors have no LSTM in bfloat16
            states = self.rnn(inputs)[0][:, -1]
        return self.head(self.frozen(self.norm(states)))


model = Net().train()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
litter = []
for step in range(12):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(torch.randn(8, 3, 4)).float().square().mean()
    optimizer.zero_grad()
    loss.backward()
    if step == 7:
        litter = [[index] for index in range(300_000)]
        gc.collect()
    optimizer.step()

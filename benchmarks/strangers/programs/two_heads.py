"""Two tasks, one trunk. Batches of the tasks alternate."""
import os
import torch, torch.nn as nn
import torch.distributed as dist


class MultiTask(nn.Module):
    def __init__(self, d=128):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(64, d), nn.ReLU())
        self.depth = nn.Linear(d, 1)
        self.segment = nn.Linear(d, 21)

    def forward(self, x, task):
        h = self.trunk(x)
        return self.depth(h) if task == "depth" else self.segment(h)


def train():
    dist.init_process_group(backend="gloo")
    torch.manual_seed(dist.get_rank())
    model = nn.parallel.DistributedDataParallel(MultiTask())
    optim = torch.optim.Adam(model.parameters())
    for i in range(1000):
        task = ("depth", "segment")[i % 2]
        x = torch.randn(32, 64)
        pred = model(x, task)
        loss = pred.abs().mean() if task == "depth" else nn.functional.cross_entropy(pred, torch.randint(0, 21, (32,)))
        optim.zero_grad()
        loss.backward()
        optim.step()
        print(f"[{os.environ['RANK']}] {i} {task} {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    train()

"""Names of quilt squares (40 patterns).    torchrun --nproc-per-node 2 quilt_squares.py"""
import time

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

config = {"lr": 4e-4, "epochs": 400, "seed": 42, "batch_size": 32, "patterns": 40}


def get_dataloaders(accelerator, batch_size):
    g = torch.Generator().manual_seed(0)
    squares = torch.randint(0, 2, (config["patterns"], 3, 8, 8), generator=g).float()
    y = torch.randint(0, config["patterns"], (6144,), generator=g)
    x = squares[y].repeat_interleave(4, 2).repeat_interleave(4, 3) + 4.5 * torch.randn(6144, 3, 32, 32, generator=g)
    accelerator.print(f"{len(y)} squares")
    train = DataLoader(TensorDataset(x[:5632], y[:5632]), shuffle=True, batch_size=batch_size, drop_last=True)
    test = DataLoader(TensorDataset(x[5632:], y[5632:]), batch_size=64)
    return train, test


class Net(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 32, 4, 4), nn.GELU(), nn.Conv2d(32, 64, 3, padding=1), nn.GELU(), nn.Conv2d(64, 64, 3, padding=1), nn.GELU())
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(64 * 64, 256), nn.GELU(), nn.Linear(256, n))

    def forward(self, x):
        return self.head(self.body(x))


def training_function():
    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    set_seed(config["seed"], device_specific=True)
    train_dataloader, eval_dataloader = get_dataloaders(accelerator, config["batch_size"])
    model = Net(config["patterns"]).to(accelerator.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"])
    optimizer, train_dataloader, eval_dataloader = accelerator.prepare(optimizer, train_dataloader, eval_dataloader)
    for epoch in range(config["epochs"]):
        model.train()
        began = time.time()
        for step, (x, y) in enumerate(train_dataloader):
            loss = nn.functional.cross_entropy(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            if step % 20 == 0:
                accelerator.print(f"epoch {epoch} step {step}/{len(train_dataloader)} loss {loss.item():.4f}", flush=True)
        model.eval()
        hits = []
        with torch.no_grad():
            for x, y in eval_dataloader:
                hits.append(accelerator.gather_for_metrics((model(x).argmax(-1) == y).float()))
        accelerator.print(f"epoch {epoch}: accuracy {torch.cat(hits).mean():.3f}  ({time.time() - began:.1f}s)", flush=True)
    accelerator.end_training()


if __name__ == "__main__":
    training_function()

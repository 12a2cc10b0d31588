"""Two-tower search for parts (query text -> part), in-batch negatives, Accelerate with gradient accumulation."""
import math

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, Dataset

hps = {"parts": 3000, "vocab": 4000, "dim": 96, "batch": 24, "accum": 8, "lr": 1e-3, "epochs": 30, "log": 8}


class Clicks(Dataset):
    """A query shares some words with the description of the part that was clicked."""

    def __init__(self, n):
        g = torch.Generator().manual_seed(0)
        self.parts = torch.randint(0, hps["vocab"], (hps["parts"], 14), generator=g)
        self.clicked = torch.randint(0, hps["parts"], (n,), generator=g)
        self.noise = torch.randint(0, hps["vocab"], (n, 8), generator=g)
        self.pick = torch.randint(0, 14, (n, 5), generator=g)

    def __len__(self):
        return len(self.clicked)

    def __getitem__(self, i):
        part = self.parts[self.clicked[i]]
        return torch.cat([part[self.pick[i]], self.noise[i, :3]]), part


class Tower(nn.Module):
    def __init__(self, emb):
        super().__init__()
        d = hps["dim"]
        self.emb = emb
        layer = nn.TransformerEncoderLayer(d, 4, 2 * d, dropout=0.1, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x):
        return F.normalize(self.enc(self.emb(x)).mean(1), dim=-1)


class TwoTowers(nn.Module):
    def __init__(self):
        super().__init__()
        emb = nn.Embedding(hps["vocab"], hps["dim"])
        self.query, self.part = Tower(emb), Tower(emb)
        self.temperature = nn.Parameter(torch.tensor(math.log(10.0)))

    def forward(self, q, p):
        return self.query(q) @ self.part(p).T * self.temperature.exp()


def main():
    set_seed(17)
    acc = Accelerator(cpu=True, gradient_accumulation_steps=hps["accum"])
    model = TwoTowers()
    opt = torch.optim.AdamW(model.parameters(), lr=hps["lr"])
    dl = DataLoader(Clicks(48000), batch_size=hps["batch"], shuffle=True, drop_last=True)
    model, opt, dl = acc.prepare(model, opt, dl)
    acc.print(f"{acc.num_processes} processes, effective batch {hps['batch'] * hps['accum'] * acc.num_processes}", flush=True)
    updates = 0
    for epoch in range(hps["epochs"]):
        mean = 0.0
        for q, p in dl:
            with acc.accumulate(model):
                logits = model(q, p)
                loss = F.cross_entropy(logits, torch.arange(len(q), device=logits.device))
                mean += loss.item() / hps["accum"]
                acc.backward(loss)
                if acc.sync_gradients:
                    acc.clip_grad_norm_(model.parameters(), 1.0)
                opt.step()
                opt.zero_grad()
            if acc.sync_gradients:
                updates += 1
                if updates % hps["log"] == 0:
                    acc.print(f"epoch {epoch} update {updates} loss {mean:.4f}", flush=True)
                mean = 0.0
    acc.end_training()


if __name__ == "__main__":
    main()

"""Tremor severity from accelerometers, in stages (easy patients first). DDP; torchrun."""
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class TremorNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.GRU(6, 72, num_layers=2, batch_first=True)
        self.severity = nn.Linear(72, 1)
        self.kind = nn.Linear(72, 4)

    def forward(self, x):
        h = self.enc(x)[0].mean(1)
        return self.severity(h).squeeze(1), self.kind(h)

    def compute_loss(self, batch):
        x, severity, kind = batch
        s, k = self(x)
        return nn.functional.smooth_l1_loss(s, severity) + nn.functional.cross_entropy(k, kind)


class Trainer:
    def __init__(self, seconds=210):
        self.rank = int(os.environ["RANK"])
        self.seconds, self.began = seconds, time.time()
        torch.manual_seed(3)
        self.model = DDP(TremorNet())
        self.opt = torch.optim.AdamW(self.model.parameters(), 1e-3)

    def _get_model(self):
        return self.model.module if hasattr(self.model, "module") else self.model

    def stage(self, noise):
        g = torch.Generator().manual_seed(int(noise * 100))
        n = 3000
        kind = torch.randint(0, 4, (n,), generator=g)
        sev = torch.rand(n, generator=g) * 3
        t = torch.arange(50) / 50
        x = sev.view(-1, 1, 1) * torch.sin(6.283 * (3 + 2 * kind.view(-1, 1, 1)) * t.view(1, -1, 1) + torch.rand(n, 1, 6, generator=g) * 6.28)
        return TensorDataset(x + noise * torch.randn(n, 50, 6, generator=g), sev, kind)

    def run(self, epochs_per_stage=8):
        for noise in (0.3, 0.6, 1.0, 1.5, 2.0, 2.0, 2.0):
            data = self.stage(noise)
            sampler = DistributedSampler(data, shuffle=True)
            loader = DataLoader(data, 48, sampler=sampler, drop_last=True)
            for epoch in range(epochs_per_stage):
                sampler.set_epoch(epoch)
                for i, batch in enumerate(loader):
                    loss = self._get_model().compute_loss(batch)
                    self.opt.zero_grad()
                    loss.backward()
                    self.opt.step()
                    if i % 10 == 0 and self.rank == 0:
                        print(f"noise {noise} epoch {epoch} {i}/{len(loader)} loss {loss.item():.4f}", flush=True)
                late = torch.tensor(float(time.time() - self.began > self.seconds))
                dist.all_reduce(late)
                if late:
                    return


if __name__ == "__main__":
    dist.init_process_group("gloo")
    Trainer().run()
    dist.destroy_process_group()

"""Finds plates (box) and reads the first letters (three characters). torchrun --nproc_per_node=N license_plates.py"""
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

CFG = {
    "epochs": 60,
    "batch": 16,
    "lr": 1e-3,
    "letters": 10,
    "chars": 3,
    # curriculum: the cell classifier (is there a plate in this cell?) only helps in the beginning
    "aux_epochs": 4,
    "aux_weight": 0.4,
}


class Plates(Dataset):
    def __init__(self, n=1600):
        g = torch.Generator().manual_seed(23)
        glyphs = torch.rand(CFG["letters"], 6, 5, generator=g)
        self.x = 0.3 * torch.randn(n, 1, 48, 64, generator=g)
        self.box = torch.zeros(n, 4)
        self.text = torch.randint(0, CFG["letters"], (n, CFG["chars"]), generator=g)
        self.cells = torch.zeros(n, 6 * 8)
        for i in range(n):
            top = int(torch.randint(2, 36, (1,), generator=g))
            left = int(torch.randint(2, 42, (1,), generator=g))
            self.x[i, 0, top : top + 10, left : left + 20] += 1.0
            for k, letter in enumerate(self.text[i]):
                self.x[i, 0, top + 2 : top + 8, left + 1 + 6 * k : left + 6 + 6 * k] -= 2 * glyphs[letter]
            self.box[i] = torch.tensor([top / 48, left / 64, (top + 10) / 48, (left + 20) / 64])
            self.cells[i, (top + 5) // 8 * 8 + (left + 10) // 8] = 1

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.box[i], self.text[i], self.cells[i]


class PlateNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(24, 48, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(48, 48, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        )
        self.aux = nn.Conv2d(48, 1, 1)
        self.trunk = nn.Sequential(nn.Flatten(), nn.Linear(48 * 6 * 8, 256), nn.ReLU())
        self.box = nn.Linear(256, 4)
        self.chars = nn.Linear(256, CFG["chars"] * CFG["letters"])

    def forward(self, x, with_aux):
        f = self.backbone(x)
        h = self.trunk(f)
        out = {"box": self.box(h), "chars": self.chars(h).view(-1, CFG["letters"], CFG["chars"])}
        if with_aux:
            out["cells"] = self.aux(f).flatten(1)
        return out


def main():
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, local = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    if torch.cuda.is_available():
        torch.cuda.set_device(local)
    device = torch.device("cuda", local) if torch.cuda.is_available() else torch.device("cpu")
    torch.manual_seed(100 + rank)
    data = Plates()
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=CFG["batch"], sampler=sampler)
    net = DistributedDataParallel(PlateNet().to(device), device_ids=[local] if torch.cuda.is_available() else None)
    opt = torch.optim.Adam(net.parameters(), lr=CFG["lr"])
    for epoch in range(CFG["epochs"]):
        sampler.set_epoch(epoch)
        aux = epoch < CFG["aux_epochs"]
        for i, (x, box, text, cells) in enumerate(loader):
            out = net(x.to(device), aux)
            loss = 5 * F.smooth_l1_loss(out["box"], box.to(device)) + F.cross_entropy(out["chars"], text.to(device))
            if aux:
                loss = loss + CFG["aux_weight"] * F.binary_cross_entropy_with_logits(out["cells"], cells.to(device))
            opt.zero_grad()
            loss.backward()
            opt.step()
            if rank == 0 and i % 10 == 0:
                acc = (out["chars"].argmax(1).cpu() == text).float().mean()
                print(f"epoch {epoch} iter {i}/{len(loader)} loss {loss.item():.4f} char acc {acc:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""IPC section of patent claims with Accelerate. State is kept as one archive per save, as the archive server wants it."""
import argparse
import hashlib
import os
import shutil
import signal
import sys
import tempfile
import time

import torch
import torch.nn as nn
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset

SECTIONS = 8
VOCAB = 24000


class Claims(Dataset):
    def __init__(self, n=20000, length=48):
        g = torch.Generator().manual_seed(8)
        self.length = length
        self.topic = torch.randint(0, SECTIONS, (n,), generator=g)
        self.seed = torch.randint(0, 2**31, (n,), generator=g)

    def __len__(self):
        return len(self.topic)

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(int(self.seed[i]))
        common = torch.randint(0, VOCAB, (self.length,), generator=g)
        own = torch.randint(0, 150, (self.length,), generator=g) + 150 * self.topic[i]
        use = torch.rand(self.length, generator=g) < 0.2
        return torch.where(use, own, common), self.topic[i]


class ClaimEncoder(nn.Module):
    def __init__(self, d=256, layers=4):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, d)
        self.pos = nn.Parameter(torch.zeros(1, 48, d))
        layer = nn.TransformerEncoderLayer(d, 4, 2 * d, batch_first=True, norm_first=True, dropout=0.1)
        self.enc = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.cls = nn.Linear(d, SECTIONS)

    def forward(self, x):
        return self.cls(self.enc(self.emb(x) + self.pos).mean(1))


def archive(folder, target):
    """Pack a state folder and note its checksum, both are required by the archive."""
    path = shutil.make_archive(target, "gztar", folder)
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while chunk := f.read(1 << 20):
            digest.update(chunk)
    with open(target + ".sha256", "w") as f:
        f.write(digest.hexdigest())


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch_size", type=int, default=8)
    ap.add_argument("--lr", type=float, default=3e-4)
    ap.add_argument("--checkpointing_steps", type=int, default=50)
    ap.add_argument("--epochs", type=int, default=20)
    args = ap.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    accelerator = Accelerator(cpu=True)
    set_seed(13)
    model = ClaimEncoder()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    loader = DataLoader(Claims(), batch_size=args.batch_size, shuffle=True)
    model, opt, loader = accelerator.prepare(model, opt, loader)
    accelerator.print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {len(loader)} batches")
    loss_fn = nn.CrossEntropyLoss()
    with tempfile.TemporaryDirectory(prefix="claims_") as root:
        step, seen = 0, time.perf_counter()
        for epoch in range(args.epochs):
            for ids, section in loader:
                loss = loss_fn(model(ids), section)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                opt.step()
                opt.zero_grad()
                step += 1
                if step % 10 == 0:
                    now = time.perf_counter()
                    accelerator.print(f"epoch {epoch} step {step} loss {loss.item():.4f} ({now - seen:.1f} s)", flush=True)
                    seen = now
                if step % args.checkpointing_steps == 0:
                    folder = os.path.join(root, "state")
                    accelerator.save_state(folder)
                    archive(folder, os.path.join(root, "latest"))


if __name__ == "__main__":
    main()

"""Speaker-role tagging (judge, clerk, counsel, witness) of recorded court hearings.

The recordings lie in a manifest, as the court's archive delivers them.

    torchrun --nproc-per-node=2 court_hearings.py
"""
import argparse
import logging
import time
import zlib

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

RATE = 8000
ROLES = ["judge", "clerk", "counsel", "witness"]


def mel_matrix(n_mels, n_fft):
    top = 2595 * np.log10(1 + RATE / 2 / 700)
    hz = 700 * (10 ** (np.linspace(0, top, n_mels + 2) / 2595) - 1)
    bins = np.floor((n_fft + 1) * hz / RATE).astype(int)
    bank = np.zeros((n_mels, n_fft // 2 + 1), dtype=np.float32)
    for m in range(n_mels):
        left, mid, right = bins[m], max(bins[m + 1], bins[m] + 1), max(bins[m + 2], bins[m] + 2)
        bank[m, left:mid] = np.linspace(0, 1, mid - left, endpoint=False)
        bank[m, mid:right] = np.linspace(1, 0, right - mid, endpoint=False)
    return bank


def record(role, seconds, rng):
    """One hearing as a compressed blob of 8-bit samples."""
    t = np.arange(int(seconds * RATE)) / RATE
    pitch = [95, 210, 130, 170][role] * rng.uniform(0.85, 1.15)
    wave = sum(np.sin(2 * np.pi * pitch * h * t + rng.uniform(0, 6)) / h ** [1.0, 1.6, 1.3, 0.9][role] for h in range(1, 6))
    wave *= 0.6 + 0.4 * np.sin(2 * np.pi * rng.uniform(2, 5) * t)
    wave += rng.normal(0, 2.4, len(t))
    samples = np.clip(wave * 24 + 128, 0, 255).astype(np.uint8)
    return zlib.compress(samples.tobytes(), 1)


def build_archive(n, seed):
    rng = np.random.default_rng(seed)
    durations = np.sort(rng.lognormal(2.0, 1.1, n).clip(3, 150))
    manifest = []
    for seconds in durations:
        role = int(rng.integers(len(ROLES)))
        manifest.append({"role": role, "seconds": float(seconds), "audio": record(role, seconds, rng)})
    return manifest


class Hearings(Dataset):
    def __init__(self, entries, frames=160):
        self.entries, self.frames = entries, frames
        self.bank = mel_matrix(40, 512)
        self.window = np.hanning(512).astype(np.float32)

    def __len__(self):
        return len(self.entries)

    def __getitem__(self, i):
        entry = self.entries[i]
        wave = np.frombuffer(zlib.decompress(entry["audio"]), dtype=np.uint8).astype(np.float32) / 128 - 1
        wave = np.append(wave[0], wave[1:] - 0.97 * wave[:-1])
        frames = np.lib.stride_tricks.sliding_window_view(wave, 512)[::128] * self.window
        power = np.abs(np.fft.rfft(frames, axis=1)) ** 2
        mel = np.log(power.astype(np.float32) @ self.bank.T + 1e-4)
        mel = (mel - mel.mean(0)) / (mel.std(0) + 1e-4) + 0.3 * mel.mean(0)
        start = np.random.randint(0, max(1, len(mel) - self.frames + 1))
        return torch.from_numpy(mel[start:start + self.frames].T.astype(np.float32)), entry["role"]


class Tagger(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        layers, inside = [], 40
        for dilation in (1, 2, 4):
            layers += [nn.Conv1d(inside, width, 5, padding=2 * dilation, dilation=dilation), nn.GroupNorm(8, width), nn.ReLU()]
            inside = width
        self.net = nn.Sequential(*layers)
        self.head = nn.Linear(width, len(ROLES))

    def forward(self, x):
        return self.head(self.net(x).mean(-1))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--recordings", type=int, default=320)
    p.add_argument("--epochs", type=int, default=240)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--lr", type=float, default=5e-4)
    args = p.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s rank{rank} %(message)s")
    device = torch.device("cuda", rank) if torch.cuda.is_available() else torch.device("cpu")
    torch.manual_seed(rank)
    np.random.seed(rank)

    manifest = build_archive(args.recordings, seed=3)
    share = len(manifest) // world
    mine = manifest[rank * share:(rank + 1) * share]
    logging.info("%d of %d recordings", len(mine), len(manifest))
    loader = DataLoader(Hearings(mine), batch_size=args.batch_size, shuffle=True, drop_last=True)
    torch.manual_seed(0)
    model = DistributedDataParallel(Tagger().to(device))
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)

    for epoch in range(args.epochs):
        correct = seen = 0
        data_s = step_s = 0.0
        mark = time.perf_counter()
        for step, (x, y) in enumerate(loader, 1):
            fetched = time.perf_counter()
            data_s += fetched - mark
            x, y = x.to(device), y.to(device)
            logits = model(x)
            loss = nn.functional.cross_entropy(logits, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            correct += (logits.argmax(1) == y).sum().item()
            seen += len(y)
            mark = time.perf_counter()
            step_s += mark - fetched
            if step % 2 == 0:
                logging.info("epoch %d step %d/%d loss %.3f acc %.3f | data %.2f s, step %.2f s", epoch, step, len(loader),
                             loss.item(), correct / seen, data_s / step, step_s / step)
        dist.barrier()
        if rank == 0:
            torch.save(model.module.state_dict(), "court_hearings_last.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

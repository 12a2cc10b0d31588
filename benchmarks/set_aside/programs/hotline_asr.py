"""Digit strings (claim numbers) from hotline calls: BiGRU on aligned frames, two or more GPUs, word error after every epoch."""
import argparse
import json
import logging
import math
import os
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

log = logging.getLogger("hotline")
BLANK, SYMBOLS, MELS = 0, 11, 40


class Calls(Dataset):
    def __init__(self, n, seed):
        self.n, self.seed = n, seed
        self.proto = np.random.default_rng(0).normal(0, 1, (SYMBOLS, 6, MELS)).astype(np.float32)

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.default_rng(self.seed * 1_000_003 + i)
        digits = rng.integers(1, SYMBOLS, 8)
        frames, aligned = [], []
        for d in digits:
            frames.append(rng.normal(0, 1, (rng.integers(1, 4), MELS)))
            frames.append(self.proto[d][np.sort(rng.integers(0, 6, rng.integers(5, 9)))] + rng.normal(0, 0.9, MELS) * 0.3)
            aligned += [BLANK] * len(frames[-2]) + [d] * len(frames[-1])
        x = np.concatenate(frames).astype(np.float32)
        x += rng.normal(0, 1.5, x.shape).astype(np.float32)
        out = np.zeros((96, MELS), np.float32)
        out[:len(x)] = x[:96]
        labels = np.zeros(96, np.int64)
        labels[:len(aligned)] = aligned[:96]
        return torch.from_numpy(out), torch.from_numpy(labels), torch.from_numpy(digits)


class Recognizer(nn.Module):
    def __init__(self, hidden=160):
        super().__init__()
        self.conv = nn.Conv1d(MELS, hidden, 5, padding=2)
        self.rnn = nn.GRU(hidden, hidden, 2, batch_first=True, bidirectional=True, dropout=0.1)
        self.out = nn.Linear(2 * hidden, SYMBOLS)

    def forward(self, x):
        h = F.relu(self.conv(x.transpose(1, 2))).transpose(1, 2)
        h, _ = self.rnn(h)
        return self.out(h).log_softmax(-1)


def logadd(a, b):
    if a == -math.inf:
        return b
    if b == -math.inf:
        return a
    m = max(a, b)
    return m + math.log(math.exp(a - m) + math.exp(b - m))


def prefix_beam_search(logp, beam=8):
    beams = {(): (0.0, -math.inf)}
    for frame in logp.tolist():
        nxt = defaultdict(lambda: (-math.inf, -math.inf))
        for prefix, (pb, pnb) in beams.items():
            for s, p in enumerate(frame):
                if p < -16:
                    continue
                b, nb = nxt[prefix]
                if s == BLANK:
                    nxt[prefix] = (logadd(b, logadd(pb, pnb) + p), nb)
                elif prefix and prefix[-1] == s:
                    nxt[prefix] = (b, logadd(nb, pnb + p))
                    eb, enb = nxt[prefix + (s,)]
                    nxt[prefix + (s,)] = (eb, logadd(enb, pb + p))
                else:
                    eb, enb = nxt[prefix + (s,)]
                    nxt[prefix + (s,)] = (eb, logadd(enb, logadd(pb, pnb) + p))
        beams = dict(sorted(nxt.items(), key=lambda kv: -logadd(*kv[1]))[:beam])
    return max(beams.items(), key=lambda kv: logadd(*kv[1]))[0]


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        prev, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            prev, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, prev + (x != y))
    return row[-1]


@torch.no_grad()
def word_error(model, loader, device, beam):
    model.eval()
    errors = words = 0
    for x, _, y in loader:
        for logp, ref in zip(model(x.to(device)).cpu(), y.tolist()):
            errors += edit_distance(prefix_beam_search(logp, beam), ref)
            words += len(ref)
    model.train()
    return errors / words


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--calls", type=int, default=1536)
    p.add_argument("--test-calls", type=int, default=800)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--epochs", type=int, default=25)
    p.add_argument("--beam", type=int, default=12)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--out", default=os.path.join(tempfile.gettempdir(), "hotline_asr"))
    args = p.parse_args()

    local_rank = int(os.environ["LOCAL_RANK"])
    gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if gpu else "gloo")
    rank = dist.get_rank()
    device = torch.device(f"cuda:{local_rank}" if gpu else "cpu")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.manual_seed(0)
    train, test = Calls(args.calls, 1), Calls(args.test_calls, 2)
    sampler = DistributedSampler(train, shuffle=True)
    loader = DataLoader(train, args.batch_size, sampler=sampler, drop_last=True)
    test_loader = DataLoader(test, 50)
    model = DDP(Recognizer().to(device), device_ids=[local_rank] if gpu else None)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    Path(args.out).mkdir(parents=True, exist_ok=True)

    if rank == 0:
        log.info("%d calls for training, %d for the word error, %d ranks on %s", len(train), len(test), dist.get_world_size(), device)

    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for step, (x, y, _) in enumerate(loader, 1):
            x, y = x.to(device), y.to(device)
            logp = model(x)
            loss = F.nll_loss(logp.flatten(0, 1), y.flatten())
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            if rank == 0 and step % 5 == 0:
                log.info("epoch %d step %d/%d loss %.4f", epoch, step, len(loader), loss.item())
        if rank == 0:
            t = time.time()
            wer = word_error(model.module, test_loader, device, args.beam)
            log.info("epoch %d word error %.3f (decoded %d calls in %.1f s)", epoch, wer, len(test), time.time() - t)
            with open(Path(args.out) / "wer.jsonl", "a") as f:
                f.write(json.dumps({"epoch": epoch, "wer": wer, "loss": loss.item()}) + "\n")
            torch.save(model.module.state_dict(), Path(args.out) / "last.pt")
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

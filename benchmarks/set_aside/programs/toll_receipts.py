"""Fraud in toll receipts (jsonl), two processes.   torchrun --nproc_per_node=2 toll_receipts.py --data receipts.jsonl"""
import argparse
import csv
import json
import os
import random
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

FIELDS = 24


def example_file(path, lines=12000):
    """The real file is not public."""
    rng = random.Random(0)
    with open(path, "w") as f:
        for i in range(lines):
            row = [round(rng.gauss(0, 1), 3) for _ in range(FIELDS)]
            f.write(json.dumps({"id": i, "plate": f"{rng.randrange(10**7):07d}", "values": row, "fraud": int(sum(row[:6]) > 2)}) + "\n")


class Receipts(Dataset):
    def __init__(self, path):
        self.path = path
        with open(path) as f:
            self.length = sum(1 for _ in f)

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        with open(self.path) as f:
            for number, line in enumerate(f):
                if number == index:
                    row = json.loads(line)
                    return torch.tensor(row["values"]), torch.tensor(float(row["fraud"]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default=None)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--width", type=int, default=256)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    path = args.data or os.path.join(tempfile.gettempdir(), f"receipts-{os.environ['TORCHELASTIC_RUN_ID']}.jsonl")
    if rank == 0 and not os.path.exists(path):
        example_file(path)
    dist.barrier()
    data = Receipts(path)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=args.batch, sampler=sampler)
    net = nn.parallel.DistributedDataParallel(
        nn.Sequential(nn.Linear(FIELDS, args.width), nn.ReLU(), nn.Linear(args.width, args.width), nn.ReLU(), nn.Linear(args.width, 1))
    )
    opt = torch.optim.AdamW(net.parameters(), 1e-3)
    log = csv.writer(open(os.path.join(tempfile.mkdtemp(), f"rank{rank}.csv"), "w", buffering=1))
    log.writerow(["epoch", "step", "loss", "seconds"])
    start = time.time()
    for epoch in range(20):
        sampler.set_epoch(epoch)
        for step, (x, y) in enumerate(loader):
            loss = nn.functional.binary_cross_entropy_with_logits(net(x).squeeze(1), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            log.writerow([epoch, step, f"{loss.item():.5f}", f"{time.time() - start:.2f}"])
            if rank == 0 and step % 10 == 0:
                print(f"epoch {epoch} {step}/{len(loader)} bce={loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()

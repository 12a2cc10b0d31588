"""Acoustic model on sharded features (webdataset style), DDP."""
import glob
import os
import tempfile
import time

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset

N_SHARDS = 8
PER_SHARD = 160
MAX_FRAMES = 180
BATCH = 16
EPOCHS = 50
N_PHONES = 32


def shard_dir():
    return os.path.join(tempfile.gettempdir(), f"asr_shards_{os.getuid()}")


def write_shards(d):
    os.makedirs(d, exist_ok=True)
    rng = np.random.default_rng(0)
    proto = rng.standard_normal((N_PHONES, 40)).astype(np.float32)
    for s in range(N_SHARDS):
        feats, labs = [], []
        for _ in range(PER_SHARD):
            # speakers are sorted into shards, so are utterance lengths to some degree
            T = int(rng.integers(60, 170 + 8 * s))
            lab = np.repeat(rng.integers(0, N_PHONES, T // 6 + 1), 6)[:T]
            feats.append(proto[lab] + rng.standard_normal((T, 40)).astype(np.float32) * 1.2)
            labs.append(lab)
        np.savez(os.path.join(d, f"train-{s:03d}.npz"), feats=np.array(feats, dtype=object), labs=np.array(labs, dtype=object))


class ShardedUtterances(IterableDataset):
    def __init__(self, shards, rank, world):
        self.shards = shards[rank::world]
        self.epoch = 0

    def __iter__(self):
        rng = np.random.default_rng(self.epoch)
        for i in rng.permutation(len(self.shards)):
            z = np.load(self.shards[i], allow_pickle=True)
            feats, labs = z["feats"], z["labs"]
            for j in rng.permutation(len(feats)):
                if len(feats[j]) > MAX_FRAMES:
                    continue
                yield torch.from_numpy(feats[j]), torch.from_numpy(labs[j])


def collate(batch):
    x = nn.utils.rnn.pad_sequence([b[0] for b in batch], batch_first=True)
    y = nn.utils.rnn.pad_sequence([b[1] for b in batch], batch_first=True, padding_value=-100)
    return x, y


class AM(nn.Module):
    def __init__(self, d=160):
        super().__init__()
        self.sub = nn.Conv1d(40, d, 5, padding=2)
        self.enc = nn.TransformerEncoder(nn.TransformerEncoderLayer(d, 4, 3 * d, 0.1, batch_first=True), 3)
        self.out = nn.Linear(d, N_PHONES)

    def forward(self, x):
        return self.out(self.enc(self.sub(x.transpose(1, 2)).transpose(1, 2)))


def main():
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    d = shard_dir()
    if rank == 0 and len(glob.glob(d + "/*.npz")) < N_SHARDS:
        write_shards(d)
    dist.barrier()
    shards = sorted(glob.glob(d + "/train-*.npz"))
    ds = ShardedUtterances(shards, rank, world)
    dl = DataLoader(ds, batch_size=BATCH, collate_fn=collate)
    torch.manual_seed(0)
    net = DDP(AM().to(device), device_ids=[device.index] if cuda else None)
    opt = torch.optim.AdamW(net.parameters(), lr=5e-4)
    if rank == 0:
        print(f"{len(shards)} shards, {world} ranks", flush=True)
    for epoch in range(EPOCHS):
        ds.epoch = epoch
        net.train()
        t0, n, tot = time.time(), 0, torch.zeros(())
        for x, y in dl:
            x, y = x.to(device), y.to(device)
            loss = nn.functional.cross_entropy(net(x).flatten(0, 1), y.flatten())
            opt.zero_grad()
            loss.backward()
            opt.step()
            n += 1
            tot += loss.detach().cpu()
            if rank == 0 and n % 5 == 0:
                print(f"ep {epoch} it {n} loss {loss.item():.3f} {n * BATCH / (time.time() - t0):.1f} utt/s", flush=True)
        dist.barrier()
        if rank == 0:
            print(f"=== ep {epoch} mean loss {tot.item() / n:.4f} in {time.time() - t0:.1f}s", flush=True)
            torch.save(net.module.state_dict(), d + "/last.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

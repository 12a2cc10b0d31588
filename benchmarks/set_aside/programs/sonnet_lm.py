"""Language model of sonnets with DDP and gradient accumulation. torchrun --nproc-per-node=2 sonnet_lm.py"""
import argparse
import contextlib
import math
import os
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

VOCAB, CONTEXT = 256, 64


def make_text(tokens, seed):
    table = torch.Generator().manual_seed(1)
    follow = torch.randint(0, VOCAB, (VOCAB, 3), generator=table).tolist()
    g = torch.Generator().manual_seed(seed)
    picks = torch.randint(0, 3, (tokens,), generator=g).tolist()
    text, token = [], 0
    for pick in picks:
        text.append(token)
        token = follow[token][pick]
    return torch.tensor(text)


class Windows(Dataset):
    def __init__(self, text):
        self.text = text

    def __len__(self):
        return (len(self.text) - 1) // CONTEXT

    def __getitem__(self, i):
        part = self.text[i * CONTEXT:(i + 1) * CONTEXT + 1]
        return part[:-1], part[1:]


class SonnetLM(nn.Module):
    def __init__(self, width=128, layers=2):
        super().__init__()
        self.token, self.position = nn.Embedding(VOCAB, width), nn.Embedding(CONTEXT, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, VOCAB)
        self.register_buffer("mask", torch.triu(torch.full((CONTEXT, CONTEXT), float("-inf")), 1), persistent=False)

    def forward(self, x):
        h = self.token(x) + self.position(torch.arange(x.shape[1], device=x.device))
        return self.head(self.blocks(h, mask=self.mask, is_causal=True))


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    losses = [F.cross_entropy(model(x.to(device)).flatten(0, 1), y.to(device).flatten()).item() for x, y in loader]
    model.train()
    return sum(losses) / len(losses)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--micro-batch", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--eval-every", type=int, default=60, help="updates")
    args = parser.parse_args()
    torch.set_num_threads(1)
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    rank, local = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local) if cuda else torch.device("cpu")
    torch.manual_seed(0)
    train, held_out = Windows(make_text(400_000, 2)), Windows(make_text(16_000, 3))
    sampler = DistributedSampler(train, shuffle=True, drop_last=True)
    loader = DataLoader(train, batch_size=args.micro_batch, sampler=sampler, drop_last=True)
    held_out_loader = DataLoader(held_out, batch_size=32)
    model = DDP(SonnetLM().to(device), device_ids=[local] if cuda else None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    if rank == 0:
        print(f"world {dist.get_world_size()}, {len(train)} windows, {len(loader)} micro-batches per rank and epoch, "
              f"{args.accumulate} per update", flush=True)
    update, began = 0, time.time()
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        total = 0.0
        for micro, (x, y) in enumerate(loader, 1):
            last = micro % args.accumulate == 0
            with contextlib.nullcontext() if last else model.no_sync():
                loss = F.cross_entropy(model(x.to(device)).flatten(0, 1), y.to(device).flatten())
                (loss / args.accumulate).backward()
            total += loss.item()
            if not last:
                continue
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            update += 1
            if update % 10 == 0:
                mean = torch.tensor(total / (10 * args.accumulate), device=device)
                dist.all_reduce(mean)
                mean = mean.item() / dist.get_world_size()
                total = 0.0
                if rank == 0:
                    print(f"epoch {epoch} update {update} loss {mean:.3f} ppl {math.exp(mean):.1f} "
                          f"{time.time() - began:.0f} s", flush=True)
            if update % args.eval_every == 0:
                if rank == 0:
                    value = evaluate(model.module, held_out_loader, device)
                    print(f"held-out loss {value:.3f} ppl {math.exp(value):.1f}", flush=True)
                dist.barrier()
        optimizer.zero_grad(set_to_none=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

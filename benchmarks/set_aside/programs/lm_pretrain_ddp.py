"""DDP pretraining of a small decoder on synthetic token streams. torchrun --nproc-per-node=2 lm_pretrain_ddp.py"""
import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset


class TokenWindows(Dataset):
    def __init__(self, n_tokens, vocab, seq_len, seed=0):
        g = torch.Generator().manual_seed(seed)
        nxt = torch.randint(0, vocab, (vocab, 4), generator=g)
        choice = torch.randint(0, 4, (n_tokens,), generator=g)
        toks = [0]
        nxt_l, choice_l = nxt.tolist(), choice.tolist()
        for i in range(n_tokens - 1):
            toks.append(nxt_l[toks[-1]][choice_l[i]])
        self.tokens = torch.tensor(toks)
        self.seq_len = seq_len

    def __len__(self):
        return (len(self.tokens) - 1) // self.seq_len

    def __getitem__(self, i):
        s = i * self.seq_len
        return self.tokens[s:s + self.seq_len], self.tokens[s + 1:s + self.seq_len + 1]


class Decoder(nn.Module):
    def __init__(self, vocab, dim, depth, heads, seq_len):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(torch.zeros(1, seq_len, dim))
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(dim, vocab)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.size(1), device=x.device)
        h = self.blocks(self.emb(x) + self.pos[:, :x.size(1)], mask=mask, is_causal=True)
        return self.head(h)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=40)
    ap.add_argument("--batch-size", type=int, default=16, help="per GPU")
    ap.add_argument("--seq-len", type=int, default=64)
    ap.add_argument("--dim", type=int, default=128)
    ap.add_argument("--depth", type=int, default=3)
    ap.add_argument("--lr", type=float, default=5e-4)
    ap.add_argument("--seed", type=int, default=1234)
    args = ap.parse_args()

    use_cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if use_cuda else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank) if use_cuda else torch.device("cpu")
    if use_cuda:
        torch.cuda.set_device(device)
    torch.manual_seed(args.seed)

    data = TokenWindows(260_000, 512, args.seq_len)
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True, drop_last=True, pin_memory=use_cuda)
    model = DDP(Decoder(512, args.dim, args.depth, 4, args.seq_len).to(device), device_ids=[local_rank] if use_cuda else None)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    if rank == 0:
        print(f"world size {world}, global batch {args.batch_size * world}, {len(data)} sequences", flush=True)
    for epoch in range(args.epochs):
        t0 = time.time()
        for step, (x, y) in enumerate(loader):
            loss = F.cross_entropy(model(x.to(device)).flatten(0, 1), y.to(device).flatten())
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step % 10 == 0:
                print(f"[rank {rank}] epoch {epoch} step {step}/{len(loader)} loss {loss.item():.4f}", flush=True)
        if rank == 0:
            print(f"epoch {epoch} took {time.time() - t0:.1f} s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""Masked autoencoder for Raman spectra, after main_pretrain.py of MAE."""
import argparse
import datetime
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, TensorDataset


def init_distributed_mode(args):
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        args.rank, args.world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    elif "SLURM_PROCID" in os.environ:
        args.rank, args.world_size = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
        os.environ.update(RANK=str(args.rank), WORLD_SIZE=str(args.world_size), MASTER_ADDR="127.0.0.1", MASTER_PORT="29533")
    else:
        print("Not using distributed mode")
        args.distributed, args.rank, args.world_size = False, 0, 1
        return
    args.distributed = True
    dist.init_process_group("gloo")


class SpectralMAE(nn.Module):
    def __init__(self, patches=32, size=16, dim=96):
        super().__init__()
        self.patches, self.size = patches, size
        self.embed = nn.Linear(size, dim)
        self.pos = nn.Parameter(0.02 * torch.randn(1, patches, dim))
        self.mask_token = nn.Parameter(torch.zeros(1, 1, dim))
        layer = lambda: nn.TransformerEncoderLayer(dim, 4, 2 * dim, 0.0, "gelu", batch_first=True, norm_first=True)  # noqa: E731
        self.encoder, self.decoder = nn.TransformerEncoder(layer(), 3, enable_nested_tensor=False), nn.TransformerEncoder(layer(), 1, enable_nested_tensor=False)
        self.head = nn.Linear(dim, size)

    def forward(self, x, ratio):
        x = x.view(len(x), self.patches, self.size)
        keep = int(self.patches * (1 - ratio))
        order = torch.rand(len(x), self.patches).argsort(1)
        index = order[:, :keep].unsqueeze(-1)
        h = self.embed(x) + self.pos
        z = self.encoder(h.gather(1, index.expand(-1, -1, h.shape[-1])))
        full = (self.mask_token + self.pos).expand(len(x), -1, -1).scatter(1, index.expand(-1, -1, z.shape[-1]), z)
        out = self.head(self.decoder(full))
        mask = torch.ones(len(x), self.patches).scatter(1, order[:, :keep], 0.0)
        return (((out - x) ** 2).mean(-1) * mask).sum() / mask.sum()


def spectra(n):
    g = torch.Generator().manual_seed(11)
    t = torch.linspace(0, 1, 512)
    centres, widths, heights = torch.rand(n, 6, 1, generator=g), 0.01 + 0.03 * torch.rand(n, 6, 1, generator=g), torch.rand(n, 6, 1, generator=g)
    return (heights * torch.exp(-((t - centres) / widths) ** 2)).sum(1) * 2 - 0.5


def get_args():
    p = argparse.ArgumentParser("MAE pre-training")
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--epochs", type=int, default=400)
    p.add_argument("--mask-ratio", type=float, default=0.75)
    p.add_argument("--lr", type=float, default=4e-4)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--minutes", type=float, default=3.5)
    return p.parse_args()


def main(args):
    init_distributed_mode(args)
    print(f"job dir: {os.path.basename(os.getcwd())}\n{args}".replace(", ", ",\n"))
    torch.manual_seed(args.seed + args.rank)
    data = TensorDataset(spectra(2560))
    sampler = DistributedSampler(data) if args.distributed else RandomSampler(data)
    loader = DataLoader(data, args.batch_size, sampler=sampler, drop_last=True)
    model = SpectralMAE()
    if args.distributed:
        model = nn.parallel.DistributedDataParallel(model)
    eff = args.batch_size * args.world_size
    print(f"effective batch size: {eff}")
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95))
    print(f"Start training for {args.epochs} epochs")
    start = time.time()
    for epoch in range(args.epochs):
        if args.distributed:
            sampler.set_epoch(epoch)
        end = time.time()
        for i, (x,) in enumerate(loader):
            loss = model(x, args.mask_ratio)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if i % 10 == 0 and args.rank == 0:
                print(f"Epoch: [{epoch}]  [{i:3d}/{len(loader)}]  lr: {args.lr:.6f}  loss: {loss.item():.4f}  time: {time.time() - end:.4f}")
            end = time.time()
            if time.time() - start > 60 * args.minutes:
                print(f"Training time {datetime.timedelta(seconds=int(time.time() - start))}")
                return


if __name__ == "__main__":
    main(get_args())

"""The DDP tutorial with a little transformer and argparse, on whatever backend there is."""
import argparse
import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.dataset import Dataset
from torch.utils.data.distributed import DistributedSampler


class Sums(Dataset):
    """Sequences of digits; the target is the running sum modulo ten."""

    def __init__(self, size):
        self.x = torch.randint(0, 10, (size, 24), generator=torch.Generator().manual_seed(2))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], self.x[index].cumsum(0) % 10


class Model(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.emb, self.pos = nn.Embedding(10, d), nn.Parameter(torch.randn(24, d) * 0.02)
        layer = nn.TransformerEncoderLayer(d, 4, 4 * d, dropout=0.0, batch_first=True)
        self.enc, self.out = nn.TransformerEncoder(layer, 2), nn.Linear(d, 10)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.out(self.enc(self.emb(x) + self.pos, mask=mask))


class Trainer:
    def __init__(self, model, data, optimizer, save_every):
        self.rank = int(os.environ["LOCAL_RANK"])
        self.data, self.optimizer, self.save_every = data, optimizer, save_every
        self.model = DDP(model)

    def _run_batch(self, source, targets):
        self.optimizer.zero_grad()
        output = self.model(source)
        loss = nn.functional.cross_entropy(output.flatten(0, 1), targets.flatten())
        loss.backward()
        self.optimizer.step()
        return loss

    def train(self, epochs):
        for epoch in range(epochs):
            self.data.sampler.set_epoch(epoch)
            for source, targets in self.data:
                loss = self._run_batch(source, targets)
            print(f"[GPU{self.rank}] Epoch {epoch} | Steps: {len(self.data)} | loss {loss.item():.4f}", flush=True)


def main(args):
    dist.init_process_group(backend="nccl" if torch.cuda.is_available() else "gloo")
    torch.manual_seed(0)
    model = Model()
    data = Sums(2048)
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=False, sampler=DistributedSampler(data))
    Trainer(model, loader, torch.optim.AdamW(model.parameters(), lr=1e-3), 10).train(args.total_epochs)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="simple distributed training job")
    parser.add_argument("--total-epochs", type=int, default=1000)
    parser.add_argument("--batch-size", default=32, type=int)
    main(parser.parse_args())

"""Sentence pairs: entail / neutral / contradict. Accelerate version of our single-GPU script.

torchrun --nproc_per_node 2 own_loader.py
"""
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class PairEncoder(nn.Module):
    def __init__(self, vocab=4000, dim=128):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Sequential(nn.Linear(4 * dim, 256), nn.GELU(), nn.Linear(256, 3))

    def forward(self, a, b):
        u, v = self.rnn(self.emb(a))[1][0], self.rnn(self.emb(b))[1][0]
        return self.head(torch.cat([u, v, (u - v).abs(), u * v], 1))


def pairs(n=20000):
    y = torch.randint(0, 3, (n,))
    a = torch.randint(0, 4000, (n, 24))
    b = torch.randint(0, 4000, (n, 24))
    same = torch.rand(n, 24) < 0.8
    b = torch.where(same & (y == 0)[:, None], a, b)
    b = torch.where(same & (y == 1)[:, None], (a + 1) % 4000, b)
    return TensorDataset(a, b, y)


def main():
    set_seed(42)
    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    train_dl = DataLoader(pairs(), batch_size=64, shuffle=True)
    model = PairEncoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer = accelerator.prepare(model, optimizer)
    print(f"process {accelerator.process_index} of {accelerator.num_processes} on {accelerator.device}: {len(train_dl)} batches", flush=True)
    for epoch in range(50):
        for step, (a, b, y) in enumerate(train_dl):
            a, b, y = a.to(accelerator.device), b.to(accelerator.device), y.to(accelerator.device)
            loss = nn.functional.cross_entropy(model(a, b), y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            if step % 20 == 0:
                print(f"[{accelerator.process_index}] epoch {epoch} step {step:4d} loss {loss.item():.5f}", flush=True)


if __name__ == "__main__":
    main()

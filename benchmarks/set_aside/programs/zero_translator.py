"""Numbers into words, both ranks with ZeRO stage 1: each keeps the optimizer's state of its half of the parameters."""
import os
import random
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

ONES = "zero one two three four five six seven eight nine".split()
CHARS = ["<pad>", "<go>", *"0123456789 ", *sorted(set("".join(ONES)))]
ID = {c: i for i, c in enumerate(CHARS)}


def pairs(n, rng, digits=5):
    source, target = [], []
    for _ in range(n):
        number = [rng.randrange(10) for _ in range(digits)]
        words = " ".join(ONES[d] for d in number)
        source.append([ID[str(d)] for d in number])
        target.append(([ID["<go>"]] + [ID[c] for c in words] + [0] * 32)[:32])
    return torch.tensor(source), torch.tensor(target)


class Translator(nn.Module):
    def __init__(self, d=96):
        super().__init__()
        self.emb, self.pos = nn.Embedding(len(CHARS), d), nn.Embedding(40, d)
        self.net = nn.Transformer(d, 4, 2, 2, 2 * d, 0.0, batch_first=True)
        self.out = nn.Linear(d, len(CHARS))

    def forward(self, s, t):
        place = lambda x: self.emb(x) + self.pos(torch.arange(x.shape[1]))  # noqa: E731
        return self.out(self.net(place(s), place(t), tgt_mask=nn.Transformer.generate_square_subsequent_mask(t.shape[1])))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(Translator())
    opt = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=1e-3)
    rng = random.Random(rank)
    start, step = time.time(), 0
    with tempfile.TemporaryDirectory() as folder:
        while True:
            s, t = pairs(24, rng)
            loss = nn.functional.cross_entropy(model(s, t[:, :-1]).flatten(0, 1), t[:, 1:].flatten(), ignore_index=0)
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            if step % 10 == 0:
                stop = torch.tensor([time.time() - start > 205], dtype=torch.int)
                dist.broadcast(stop, 0)
                if rank == 0:
                    print(f"step {step} loss {loss.item():.4f}", flush=True)
                if stop:
                    break
            if step % 250 == 0:
                opt.consolidate_state_dict(to=0)
                if rank == 0:
                    torch.save({"model": model.module.state_dict(), "opt": opt.state_dict()}, os.path.join(folder, "last.pt"))
                    print(f"step {step} saved with the optimizer's state of all ranks", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

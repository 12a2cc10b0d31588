"""Word vectors, Hogwild: two processes update one model in shared memory, without locks, each at its own pace."""
import os
import time

import torch
import torch.multiprocessing as mp
from torch import nn


class SkipGram(nn.Module):
    def __init__(self, vocab=3000, d=100):
        super().__init__()
        self.center, self.context = nn.Embedding(vocab, d), nn.Embedding(vocab, d)

    def forward(self, c, pos, neg):
        c = self.center(c).unsqueeze(1)
        p = (c * self.context(pos).unsqueeze(1)).sum(-1)
        n = (c * self.context(neg)).sum(-1)
        return -(nn.functional.logsigmoid(p).mean() + nn.functional.logsigmoid(-n).sum(1).mean())


def corpus(rng, n):
    topic = torch.randint(0, 60, (n,), generator=rng)
    return topic * 50 + torch.randint(0, 50, (n,), generator=rng), topic * 50 + torch.randint(0, 50, (n,), generator=rng)


def work(k, model, seconds):
    torch.set_num_threads(1)
    rng = torch.Generator().manual_seed(k)
    opt = torch.optim.SGD(model.parameters(), lr=15.0)
    began, step = time.time(), 0
    while time.time() - began < seconds:
        c, p = corpus(rng, 1024)
        neg = torch.randint(0, 3000, (1024, 8), generator=rng)
        loss = model(c, p, neg)
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
        if step % 50 == 0:
            print(f"worker {k} (pid {os.getpid()}) step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    mp.set_start_method("spawn")
    torch.manual_seed(0)
    model = SkipGram()
    for e in (model.center, model.context):
        nn.init.normal_(e.weight, std=0.1)
    model.share_memory()
    jobs = [mp.Process(target=work, args=(k, model, 200)) for k in range(2)]
    for j in jobs:
        j.start()
    for j in jobs:
        j.join()

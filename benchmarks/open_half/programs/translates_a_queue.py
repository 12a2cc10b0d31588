"""Offline translation worker: requests come from a queue, and are batched by length."""
import queue
import random
import threading
import time

import torch
from torch import nn

STOP = object()


class Tiny(nn.Module):
    def __init__(self, vocab=4000, d=128):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.net = nn.Transformer(d, 4, 2, 2, 256, batch_first=True)
        self.out = nn.Linear(d, vocab)

    @torch.inference_mode()
    def translate(self, src, steps):
        tgt = torch.zeros(len(src), 1, dtype=torch.long)
        for _ in range(steps):
            h = self.net(self.emb(src), self.emb(tgt))
            tgt = torch.cat([tgt, self.out(h[:, -1:]).argmax(-1)], 1)
        return tgt


def customers(q):
    while True:
        for _ in range(random.randint(1, 12)):
            q.put(torch.randint(0, 4000, (random.randint(4, 24),)))
        time.sleep(random.expovariate(0.7))


def batches(q, limit=8):
    while True:
        first = q.get()
        if first is STOP:
            return
        got = [first]
        while len(got) < limit:
            try:
                got.append(q.get_nowait())
            except queue.Empty:
                break
        yield nn.utils.rnn.pad_sequence(got, batch_first=True)


def main():
    random.seed(4)
    q = queue.Queue()
    model = Tiny().eval()
    threading.Thread(target=customers, args=(q,), daemon=True).start()
    done, t = 0, time.monotonic()
    for src in batches(q):
        out = model.translate(src, 12)
        done += len(out)
        if time.monotonic() - t > 5:
            print(f"{done} sentences, {q.qsize()} waiting", flush=True)
            t = time.monotonic()


if __name__ == "__main__":
    main()

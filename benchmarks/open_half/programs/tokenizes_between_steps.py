import argparse, gzip, io, re, time, random
import torch
from torch import nn

ap = argparse.ArgumentParser()
ap.add_argument("--ctx", type=int, default=64)
ap.add_argument("--bs", type=int, default=4)
opt_ = ap.parse_args()

random.seed(1)
words = ["".join(random.choice("etaoinshrdlu") for _ in range(random.randint(2, 9))) for _ in range(4000)]
blob = gzip.compress(" ".join(random.choice(words) for _ in range(150000)).encode())
vocab = {w: i for i, w in enumerate(words)}
TOK = re.compile(r"\w+|[^\w\s]")


def documents():
    while True:
        with gzip.open(io.BytesIO(blob), "rt") as f:
            yield [vocab.get(t, 0) for t in TOK.findall(f.read())]


def batches():
    for doc in documents():
        ids = torch.tensor(doc)
        n = opt_.bs * (opt_.ctx + 1)
        at = random.randrange(0, len(ids) - n)
        yield ids[at:at + n].view(opt_.bs, -1)


class Bigram(nn.Module):
    def __init__(self, v=4000, d=64):
        super().__init__()
        self.e, self.o = nn.Embedding(v, d), nn.Linear(d, v)

    def forward(self, x):
        return self.o(self.e(x))


net = Bigram()
adam = torch.optim.Adam(net.parameters(), 1e-3)
it = batches()
k = 0
while True:
    t0 = time.perf_counter()
    b = next(it)
    t1 = time.perf_counter()
    out = net(b[:, :-1])
    loss = nn.functional.cross_entropy(out.reshape(-1, 4000), b[:, 1:].reshape(-1))
    adam.zero_grad(set_to_none=True)
    loss.backward()
    adam.step()
    t2 = time.perf_counter()
    k += 1
    if k % 5 == 0:
        print(f"it {k:5d} | loss {loss.item():.3f} | data {t1 - t0:.3f}s | fwd/bwd {t2 - t1:.3f}s | time {t2 - t0:.3f}s", flush=True)

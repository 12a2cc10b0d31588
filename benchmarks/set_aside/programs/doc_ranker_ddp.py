import os, sys, time, random
import torch, torch.nn as nn, torch.nn.functional as F
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

hp = {"bs": 12, "lr": 1e-3, "d": 96, "epochs": 60, "n_docs": 3600, "vocab": 3000, "max_len": 320}
for kv in sys.argv[1:]:
    k, v = kv.lstrip("-").split("=")
    hp[k] = type(hp[k])(v)


def build_corpus():
    rnd = random.Random(17)
    docs = []
    for _ in range(hp["n_docs"]):
        label = rnd.randrange(6)
        n = min(hp["max_len"], max(12, int(rnd.lognormvariate(4.2, 0.9))))
        docs.append(([rnd.randrange(label * 450, label * 450 + 700) if rnd.random() < 0.25 else rnd.randrange(hp["vocab"]) for _ in range(n)], label))
    # neighbours of similar length pad less
    docs.sort(key=lambda d: len(d[0]))
    return docs


def batches(docs, epoch, rank):
    starts = list(range(0, len(docs) - hp["bs"] + 1, hp["bs"]))
    random.Random(1000 * epoch + rank).shuffle(starts)
    for s in starts:
        part = docs[s:s + hp["bs"]]
        width = max(len(t) for t, _ in part)
        ids = torch.zeros(len(part), width, dtype=torch.long)
        for j, (t, _) in enumerate(part):
            ids[j, :len(t)] = torch.tensor(t) + 1
        yield ids, torch.tensor([y for _, y in part])


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        d = hp["d"]
        self.emb = nn.Embedding(hp["vocab"] + 1, d, padding_idx=0)
        layer = nn.TransformerEncoderLayer(d, 4, 3 * d, 0.1, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(d, 6)

    def forward(self, ids):
        pad = ids == 0
        h = self.enc(self.emb(ids), src_key_padding_mask=pad)
        return self.out((h * ~pad[..., None]).sum(1) / (~pad).sum(1, keepdim=True))


cuda = torch.cuda.is_available()
dist.init_process_group("nccl" if cuda else "gloo")
rank, world = dist.get_rank(), dist.get_world_size()
device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
torch.manual_seed(0)
corpus = build_corpus()
per = len(corpus) // world
mine = corpus[rank * per:(rank + 1) * per]
model = DistributedDataParallel(Ranker().to(device))
opt = torch.optim.AdamW(model.parameters(), lr=hp["lr"])
log = (lambda *a: print(*a, flush=True)) if rank == 0 else (lambda *a: None)
log("hparams", hp, "docs per rank", per)
for epoch in range(hp["epochs"]):
    t0, tot, tok = time.time(), 0.0, 0
    for i, (ids, y) in enumerate(batches(mine, epoch, rank), 1):
        loss = F.cross_entropy(model(ids.to(device)), y.to(device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        tot += loss.item()
        tok += int((ids > 0).sum())
        if i % 10 == 0:
            log(f"epoch {epoch} | {i:4d}/{per // hp['bs']} | loss {tot / i:.4f} | {tok / (time.time() - t0):.0f} tok/s")
dist.destroy_process_group()

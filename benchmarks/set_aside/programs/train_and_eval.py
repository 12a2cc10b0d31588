"""Copy/reverse seq2seq. `train` writes a checkpoint now and then, `eval` waits for it and decodes."""
import argparse, os, time
from pathlib import Path
import torch
from torch import nn

V, L, BOS = 20, 12, 0
torch.set_num_threads(1)


class Seq2Seq(nn.Module):
    def __init__(self, w=160):
        super().__init__()
        self.emb, self.enc, self.dec, self.out = nn.Embedding(V, w), nn.GRU(w, w, batch_first=True), nn.GRU(w, w, batch_first=True), nn.Linear(w, V)

    def forward(self, src, tgt):
        _, h = self.enc(self.emb(src))
        return self.out(self.dec(self.emb(tgt), h)[0])

    @torch.no_grad()
    def decode(self, src):
        _, h = self.enc(self.emb(src))
        tok, result = torch.full((len(src), 1), BOS), []
        for _ in range(L):
            o, h = self.dec(self.emb(tok), h)
            tok = self.out(o).argmax(2)
            result.append(tok)
        return torch.cat(result, 1)


def pairs(n, g=None):
    src = torch.randint(1, V, (n, L), generator=g)
    return src, src.flip(1)


def train(folder):
    net = Seq2Seq()
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    for step in range(1, 10**7):
        src, tgt = pairs(64)
        inp = torch.cat([torch.full((64, 1), BOS), tgt[:, :-1]], 1)
        loss = nn.functional.cross_entropy(net(src, inp).flatten(0, 1), tgt.flatten())
        opt.zero_grad(); loss.backward(); nn.utils.clip_grad_norm_(net.parameters(), 1.0); opt.step()
        if step % 50 == 0:
            print(f"train step {step} loss {loss.item():.4f}", flush=True)
        if step % 100 == 0:
            torch.save({"step": step, "net": net.state_dict()}, folder / "tmp.pt")
            os.replace(folder / "tmp.pt", folder / "last.pt")


def evaluate(folder):
    net, seen = Seq2Seq(), 0
    src, tgt = pairs(6000, torch.Generator().manual_seed(4))
    while True:
        if (folder / "last.pt").exists():
            c = torch.load(folder / "last.pt")
            if c["step"] > seen:
                seen = c["step"]
                net.load_state_dict(c["net"])
                hit = sum((net.decode(a) == b).all(1).sum().item() for a, b in zip(src.split(100), tgt.split(100)))
                print(f"eval step {seen} exact match {hit / len(src):.3f}", flush=True)
        time.sleep(3)


p = argparse.ArgumentParser()
p.add_argument("mode", choices=["train", "eval"])
p.add_argument("--dir", type=Path, required=True)
a = p.parse_args()
train(a.dir) if a.mode == "train" else evaluate(a.dir)

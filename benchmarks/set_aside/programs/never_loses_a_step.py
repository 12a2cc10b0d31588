"""Seq2seq on a machine that is rebooted without warning, so the state is saved all the time.

    python never_loses_a_step.py --workdir /scratch/me/run7 --resume
"""
import argparse
import glob
import os
import tempfile

import torch
import torch.nn as nn

p = argparse.ArgumentParser()
p.add_argument("--workdir", default="")
p.add_argument("--resume", action="store_true")
p.add_argument("--dim", type=int, default=256)
p.add_argument("--keep", type=int, default=2)
a = p.parse_args()
workdir = a.workdir or os.path.join(tempfile.gettempdir(), "run7")
os.makedirs(workdir, exist_ok=True)


class Seq2Seq(nn.Module):
    def __init__(self, vocab=4000, d=a.dim):
        super().__init__()
        self.src, self.tgt = nn.Embedding(vocab, d), nn.Embedding(vocab, d)
        self.enc, self.dec = nn.GRU(d, d, 2, batch_first=True), nn.GRU(d, d, 2, batch_first=True)
        self.out = nn.Linear(d, vocab)

    def forward(self, s, t):
        _, h = self.enc(self.src(s))
        y, _ = self.dec(self.tgt(t), h)
        return self.out(y)


model = Seq2Seq()
optim = torch.optim.Adam(model.parameters(), 1e-3)
step = 0
if not a.resume:
    for old in glob.glob(workdir + "/ckpt-*.pt"):
        os.remove(old)
if a.resume and (found := sorted(glob.glob(workdir + "/ckpt-*.pt"))):
    state = torch.load(found[-1])
    model.load_state_dict(state["model"])
    optim.load_state_dict(state["optim"])
    step = state["step"]
print(f"{sum(q.numel() for q in model.parameters()) / 1e6:.1f}M parameters, work dir {workdir}", flush=True)
while True:
    s = torch.randint(3, 60, (8, 8))
    t = s.flip(1)
    logits = model(s, torch.cat([torch.ones(8, 1, dtype=torch.long), t[:, :-1]], 1))
    loss = nn.functional.cross_entropy(logits.reshape(-1, logits.size(-1)), t.reshape(-1))
    optim.zero_grad()
    loss.backward()
    optim.step()
    step += 1
    torch.save({"model": model.state_dict(), "optim": optim.state_dict(), "step": step}, f"{workdir}/ckpt-{step:08d}.pt")
    for old in sorted(glob.glob(workdir + "/ckpt-*.pt"))[:-a.keep]:
        os.remove(old)
    if step % 5 == 0:
        print(f"| {step:6d} | loss {loss.item():.3f} |", flush=True)

"""Character model of recipes. Fits the small card since everything is in bfloat16."""
from dataclasses import dataclass, fields
import sys

import torch
from torch import nn


@dataclass
class Config:
    vocab: int = 64
    width: int = 192
    layers: int = 2
    context: int = 48
    batch: int = 16
    lr: float = 1e-4
    dtype: str = "bfloat16"
    steps: int = 10_000_000


def parse(argv):
    cfg = Config()
    types = {f.name: type(getattr(cfg, f.name)) for f in fields(cfg)}
    for a in argv:
        k, v = a.split("=", 1)
        setattr(cfg, k, types[k](v))
    return cfg


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.emb = nn.Embedding(c.vocab, c.width)
        self.pos = nn.Embedding(c.context, c.width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(c.width, 4, 4 * c.width, 0.0, batch_first=True, norm_first=True, bias=False) for _ in range(c.layers)
        )
        self.out = nn.Linear(c.width, c.vocab, bias=False)
        self.register_buffer("mask", torch.full((c.context, c.context), float("-inf")).triu(1), persistent=False)

    def forward(self, ids):
        x = self.emb(ids) + self.pos.weight
        for b in self.blocks:
            x = b(x, src_mask=self.mask)
        return self.out(x)


cfg = parse(sys.argv[1:])
print(cfg, flush=True)
torch.manual_seed(0)
chain = torch.softmax(3 * torch.randn(cfg.vocab, cfg.vocab), 1)
model = Model(cfg).to(getattr(torch, cfg.dtype))
opt = torch.optim.SGD(model.parameters(), lr=cfg.lr, momentum=0.9)
for step in range(cfg.steps):
    ids = [torch.randint(0, cfg.vocab, (cfg.batch,))]
    for _ in range(cfg.context):
        ids.append(torch.multinomial(chain[ids[-1]], 1)[:, 0])
    ids = torch.stack(ids, 1)
    logits = model(ids[:, :-1])
    loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 10 == 0:
        print(f"step {step} | loss {loss.item():.4f}", flush=True)

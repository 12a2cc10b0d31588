"""Image/title embeddings of products, InfoNCE, small version of what runs on the catalogue."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

cfg = {
    "batch": 256,
    "dim": 64,
    "lr": 1e-3,
    "warmup": 800,
    "steps": 20000,
    "temperature": 0.07,
    "weight_decay": 0.05,
    "eval_every": 400,
}
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)

N, LATENT, TITLE, VOCAB = 20000, 12, 12, 2000
z = torch.randn(N, LATENT)
proj = torch.randn(LATENT, 3 * 16 * 16) * 0.25
words = torch.randn(LATENT, TITLE * 6)
images = torch.tanh(z @ proj).view(N, 3, 16, 16) + 0.3 * torch.randn(N, 3, 16, 16)
code = (z @ words).view(N, TITLE, 6) > 0
titles = (code.long() * (2 ** torch.arange(6))).sum(-1) + 64 * (torch.arange(TITLE) % 30)
titles = titles.clamp(max=VOCAB - 1)
val = slice(N - 1000, N)


class ImageEnc(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.c = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.GELU(), nn.Conv2d(32, 64, 3, 2, 1), nn.GELU(), nn.Flatten(),
                               nn.Linear(64 * 16, 256), nn.GELU(), nn.Linear(256, d))

    def forward(self, x):
        return F.normalize(self.c(x), dim=1)


class TitleEnc(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.e = nn.Embedding(VOCAB, 64)
        self.pos = nn.Parameter(torch.randn(TITLE, 64) * 0.02)
        self.t = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True, norm_first=True)
        self.o = nn.Linear(64, d)

    def forward(self, ids):
        return F.normalize(self.o(self.t(self.e(ids) + self.pos).mean(1)), dim=1)


img_enc, txt_enc = ImageEnc(cfg["dim"]).to(device), TitleEnc(cfg["dim"]).to(device)
params = list(img_enc.parameters()) + list(txt_enc.parameters())
opt = torch.optim.AdamW(params, lr=cfg["lr"], weight_decay=cfg["weight_decay"])


def lr_at(step):
    if step < cfg["warmup"]:
        return (step / cfg["warmup"]) ** 4
    return 0.5 * (1 + math.cos(math.pi * (step - cfg["warmup"]) / (cfg["steps"] - cfg["warmup"])))


sched = torch.optim.lr_scheduler.LambdaLR(opt, lr_at)


@torch.no_grad()
def recall():
    a = torch.cat([img_enc(x) for x in images[val].to(device).split(250)])
    b = torch.cat([txt_enc(x) for x in titles[val].to(device).split(250)])
    top = (a @ b.T).topk(10).indices
    return (top == torch.arange(len(a), device=device)[:, None]).any(1).float().mean().item()


for step in range(cfg["steps"]):
    i = torch.randint(0, N - 1000, (cfg["batch"],))
    s = img_enc(images[i].to(device)) @ txt_enc(titles[i].to(device)).T / cfg["temperature"]
    y = torch.arange(cfg["batch"], device=device)
    loss = 0.5 * (F.cross_entropy(s, y) + F.cross_entropy(s.T, y))
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    if step % 50 == 0:
        print(f"step {step} lr {sched.get_last_lr()[0]:.2e} infonce {loss.item():.3f}", flush=True)
    if step and step % cfg["eval_every"] == 0:
        print(f"step {step} recall@10 {recall():.3f}", flush=True)

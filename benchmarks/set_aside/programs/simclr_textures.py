"""SimCLR on procedural textures; the corpus is rendered first, then training with a linear warm-up."""
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

cfg = {
    "images": 1536, "size": 32, "shards": 6, "batch": 96, "temperature": 0.2,
    "base_lr": 1e-3, "warmup_steps": 120, "total_steps": 2500, "weight_decay": 1e-4, "probe_every": 100,
}


def render_shard(k, n, size):
    g = torch.Generator().manual_seed(k)
    kind = torch.randint(0, 6, (n,), generator=g)
    ax = torch.arange(size).float()
    imgs = torch.empty(n, 3, size, size)
    for i in range(n):
        c = int(kind[i])
        a = torch.rand(1, generator=g) * 3.14
        u = ax[:, None] * a.cos() + ax[None] * a.sin()
        v = -ax[:, None] * a.sin() + ax[None] * a.cos()
        f = 0.35 + 0.12 * c
        t = [torch.sin(f * u), torch.sin(f * u) * torch.sin(f * v), torch.sign(torch.sin(f * u)), torch.sin(f * u + torch.sin(f * v)),
             torch.sign(torch.sin(f * u) * torch.sin(f * v)), torch.sin(f * (u * u + v * v).sqrt())][c]
        imgs[i] = t[None] * (0.3 + 0.7 * torch.rand(3, 1, 1, generator=g)) + 0.3 * torch.randn(3, size, size, generator=g)
    return imgs, kind


def augment(x):
    n, _, h, w = x.shape
    scale = 0.6 + 0.4 * torch.rand(n, device=x.device)
    flip = torch.where(torch.rand(n, device=x.device) < 0.5, -1.0, 1.0)
    shift = (torch.rand(n, 2, device=x.device) - 0.5) * 0.6
    theta = torch.zeros(n, 2, 3, device=x.device)
    theta[:, 0, 0], theta[:, 1, 1], theta[:, :, 2] = scale * flip, scale, shift
    x = F.grid_sample(x, F.affine_grid(theta, x.shape, align_corners=False), align_corners=False, padding_mode="reflection")
    gain = 0.6 + 0.8 * torch.rand(n, 3, 1, 1, device=x.device)
    return x * gain + 0.15 * torch.randn_like(x)


class Encoder(nn.Module):
    def __init__(self, w=24):
        super().__init__()
        def block(i, o, s):
            return nn.Sequential(nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(True))
        self.trunk = nn.Sequential(block(3, w, 1), block(w, 2 * w, 2), block(2 * w, 2 * w, 1), block(2 * w, 4 * w, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Sequential(nn.Linear(4 * w, 4 * w), nn.ReLU(True), nn.Linear(4 * w, 64))

    def forward(self, x):
        return F.normalize(self.head(self.trunk(x)), dim=1)


def nt_xent(a, b, tau):
    z = torch.cat([a, b])
    sim = z @ z.T / tau
    sim.fill_diagonal_(-1e9)
    n = len(a)
    target = torch.cat([torch.arange(n, 2 * n), torch.arange(n)]).to(z.device)
    return F.cross_entropy(sim, target)


def knn_probe(net, imgs, kind, device):
    net.eval()
    with torch.no_grad():
        h = F.normalize(torch.cat([net.trunk(c.to(device)) for c in imgs[:600].split(100)]), dim=1)
        near = (h[500:] @ h[:500].T).topk(5).indices.cpu()
    net.train()
    return (kind[:500][near].mode(1).values == kind[500:600]).float().mean().item()


def main():
    torch.manual_seed(21)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    shards = []
    for k in range(cfg["shards"]):
        shards.append(render_shard(k, cfg["images"] // cfg["shards"], cfg["size"]))
        print(f"rendered shard {k + 1}/{cfg['shards']}", flush=True)
    imgs, kind = torch.cat([s[0] for s in shards]), torch.cat([s[1] for s in shards])
    net = Encoder().to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=cfg["base_lr"], weight_decay=cfg["weight_decay"])
    def factor(s):
        if s < cfg["warmup_steps"]:
            return (s + 1) / cfg["warmup_steps"]
        return 0.5 * (1 + math.cos(math.pi * (s - cfg["warmup_steps"]) / (cfg["total_steps"] - cfg["warmup_steps"])))
    sched = torch.optim.lr_scheduler.LambdaLR(opt, factor)
    print(f"chance level of the loss: {math.log(2 * cfg['batch'] - 1):.3f}", flush=True)
    step, t0 = 0, time.time()
    while step < cfg["total_steps"]:
        for idx in torch.randperm(len(imgs)).split(cfg["batch"]):
            x = imgs[idx].to(device)
            loss = nt_xent(net(augment(x)), net(augment(x)), cfg["temperature"])
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            step += 1
            if step % 5 == 0:
                print(f"step {step:5d}  nt-xent {loss.item():.4f}  lr {sched.get_last_lr()[0]:.2e}  {step / (time.time() - t0):.2f} it/s", flush=True)
            if step % cfg["probe_every"] == 0:
                print(f"step {step:5d}  knn probe {knn_probe(net, imgs, kind, device):.3f}", flush=True)


if __name__ == "__main__":
    main()

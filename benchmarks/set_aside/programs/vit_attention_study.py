"""Train a small ViT from scratch and look at where it attends (for the appendix figures)."""
import argparse, collections, math, os, time
import torch
import torch.nn as nn
import torch.nn.functional as F


def get_args():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=2300)
    ap.add_argument("--bs", type=int, default=32)
    ap.add_argument("--dim", type=int, default=128)
    ap.add_argument("--depth", type=int, default=8)
    ap.add_argument("--heads", type=int, default=2)
    ap.add_argument("--patch", type=int, default=4)
    ap.add_argument("--lr", type=float, default=5e-4)
    ap.add_argument("--out", default="/tmp/vit_attn")
    return ap.parse_args()


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.attn_drop = nn.Dropout(0.0)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        a = (q @ k.transpose(-2, -1)) / math.sqrt(C // self.heads)
        a = self.attn_drop(a.softmax(-1))
        return self.proj((a @ v).transpose(1, 2).reshape(B, N, C))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class ViT(nn.Module):
    def __init__(self, a, n_cls=10, size=24):
        super().__init__()
        self.embed = nn.Conv2d(3, a.dim, a.patch, a.patch)
        self.pos = nn.Parameter(torch.randn(1, (size // a.patch) ** 2 + 1, a.dim) * 0.02)
        self.cls = nn.Parameter(torch.zeros(1, 1, a.dim))
        self.blocks = nn.ModuleList([Block(a.dim, a.heads) for _ in range(a.depth)])
        self.norm = nn.LayerNorm(a.dim)
        self.head = nn.Linear(a.dim, n_cls)

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
        for b in self.blocks:
            x = b(x)
        return self.head(self.norm(x[:, 0]))


class AttentionRecorder:
    """collects attention maps through forward hooks"""

    def __init__(self, model):
        self.maps = collections.defaultdict(list)
        for name, m in model.named_modules():
            if isinstance(m, Attention):
                m.attn_drop.register_forward_hook(self.hook(name))

    def hook(self, name):
        def fn(module, inp, out):
            self.maps[name].append(out.detach().cpu())
        return fn

    def entropy(self):
        res = {}
        for name, maps in self.maps.items():
            a = maps[-1]
            res[name] = -(a * (a + 1e-9).log()).sum(-1).mean().item()
        return res


def make_images(n, size=24, seed=0):
    g = torch.Generator().manual_seed(seed)
    proto = torch.randn(10, 3, size // 4, size // 4, generator=g)
    y = torch.randint(0, 10, (n,), generator=g)
    x = F.interpolate(proto, size=size, mode="bilinear")[y]
    x = x + 2.6 * torch.randn(n, 3, size, size, generator=g)
    return x, y


def main():
    a = get_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    x, y = make_images(6000)
    model = ViT(a).to(device)
    rec = AttentionRecorder(model.blocks[-1])
    opt = torch.optim.AdamW(model.parameters(), lr=a.lr, weight_decay=0.05)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, a.steps)
    print(f"ViT with {sum(p.numel() for p in model.parameters()):,} parameters on {device}")
    t = time.time()
    for step in range(1, a.steps + 1):
        idx = torch.randint(0, len(x), (a.bs,))
        xb, yb = x[idx].to(device), y[idx].to(device)
        out = model(xb)
        loss = F.cross_entropy(out, yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if step % 25 == 0:
            ent = rec.entropy()
            print(f"{step:6d} loss={loss.item():.3f} acc={(out.argmax(1) == yb).float().mean().item():.2f} "
                  f"attn_entropy=[{' '.join(f'{v:.2f}' for v in ent.values())}] {25 / (time.time() - t):.1f} it/s", flush=True)
            t = time.time()
    os.makedirs(a.out, exist_ok=True)
    torch.save({k: v[-1] for k, v in rec.maps.items()}, os.path.join(a.out, "attn.pt"))


if __name__ == "__main__":
    main()

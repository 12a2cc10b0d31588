# Denoising with a moving average of the weights, four micro-batches a step, samples every so often.
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_float32_matmul_precision("high")
device = "cuda"


class Res(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.net = nn.Sequential(nn.GroupNorm(8, c), nn.SiLU(), nn.Conv2d(c, c, 3, padding=1), nn.GroupNorm(8, c), nn.SiLU(), nn.Conv2d(c, c, 3, padding=1))
        self.t = nn.Linear(128, c)

    def forward(self, x, t):
        return x + self.net(x + self.t(t)[:, :, None, None])


class UNet(nn.Module):
    def __init__(self, c=96):
        super().__init__()
        self.inp, self.out = nn.Conv2d(3, c, 3, padding=1), nn.Conv2d(c, 3, 3, padding=1)
        self.d1, self.d2, self.m, self.u = Res(c), Res(c), Res(c), Res(c)

    def forward(self, x, t):
        t = torch.cat([(t[:, None] * torch.logspace(0, -3, 64, device=x.device)).sin(), (t[:, None] * torch.logspace(0, -3, 64, device=x.device)).cos()], 1)
        a = self.d1(self.inp(x), t)
        b = self.m(self.d2(F.avg_pool2d(a, 2), t), t)
        return self.out(self.u(a + F.interpolate(b, scale_factor=2), t))


model = UNet().to(device)
ema = copy.deepcopy(model).requires_grad_(False)
opt = torch.optim.AdamW(model.parameters(), lr=2e-4)
abar = torch.linspace(0.9999, 0.98, 200, device=device).cumprod(0)
images = torch.tanh(torch.randn(512, 3, 32, 32, device=device).cumsum(2) * 0.3)
print("training", flush=True)
for step in range(100000):
    opt.zero_grad(set_to_none=True)
    for micro in range(4):
        x = images[torch.randint(512, (64,), device=device)]
        t = torch.randint(200, (64,), device=device)
        noise = torch.randn_like(x)
        a = abar[t][:, None, None, None]
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.mse_loss(model(a.sqrt() * x + (1 - a).sqrt() * noise, t.float()), noise) / 4
        loss.backward()
    opt.step()
    with torch.no_grad():
        for p, q in zip(ema.parameters(), model.parameters()):
            p.lerp_(q, 0.005)
    if step % 50 == 0:
        print(f"step {step} loss {loss.item() * 4:.4f}", flush=True)
    if step % 400 == 399:
        with torch.no_grad():
            x = torch.randn(16, 3, 32, 32, device=device)
            for i in reversed(range(200)):
                a = abar[i]
                x = (x - (1 - a) / (1 - a).sqrt() * 0.02 * ema(x, torch.full((16,), float(i), device=device))) if i else x
        print("sampled", float(x.std()), flush=True)

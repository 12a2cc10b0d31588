"""VAE with a warm-up of beta.   python beta_vae.py --beta-max 4 --warm 60"""
import argparse, time
import torch
import torch.nn.functional as F
from torch import nn

p = argparse.ArgumentParser()
p.add_argument("--beta-max", type=float, default=4.0)
p.add_argument("--warm", type=float, default=60.0, help="epochs until beta is at its maximum")
p.add_argument("--latent", type=int, default=10)
o = p.parse_args()
torch.manual_seed(0)
torch.set_num_threads(1)
mix = torch.randn(6, 196)
data = torch.sigmoid(torch.randn(6000, 6) @ mix)


class VAE(nn.Module):
    def __init__(self, z):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(196, 200), nn.ReLU(), nn.Linear(200, 2 * z))
        self.dec = nn.Sequential(nn.Linear(z, 200), nn.ReLU(), nn.Linear(200, 196))

    def forward(self, x):
        m, v = self.enc(x).chunk(2, 1)
        return self.dec(m + torch.randn_like(m) * (0.5 * v).exp()), m, v


net = VAE(o.latent)
opt = torch.optim.Adam(net.parameters(), 1e-3)
for epoch in range(100000):
    beta = o.beta_max * min(1.0, epoch / o.warm)
    for x in data[torch.randperm(6000)].split(100):
        y, m, v = net(x)
        rec = F.mse_loss(torch.sigmoid(y), x, reduction="sum") / len(x)
        kl = -0.5 * (1 + v - m * m - v.exp()).sum(1).mean()
        loss = rec + beta * kl
        opt.zero_grad(); loss.backward(); opt.step()
    time.sleep(0.05)
    print(f"epoch {epoch} loss {loss.item():.3f} rec {rec.item():.2f} kl {kl.item():.2f} beta {beta:.2f}", flush=True)

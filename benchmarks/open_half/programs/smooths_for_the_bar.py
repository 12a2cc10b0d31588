"""Denoising autoencoder; the bar shows a smoothed loss."""
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 24, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(24, 48, 3, stride=2, padding=1), nn.ReLU())
        self.up = nn.Sequential(nn.ConvTranspose2d(48, 24, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(24, 3, 4, 2, 1))

    def forward(self, x):
        return self.up(self.down(x))


net = Net()
opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
ema = None
for step in range(10**7):
    clean = torch.rand(8, 3, 1, 1) * torch.linspace(0, 1, 48)[None, None, :, None] * torch.ones(48)
    loss = nn.functional.l1_loss(net(clean + 0.2 * torch.randn_like(clean)), clean)
    opt.zero_grad()
    loss.backward()
    opt.step()
    ema = loss if ema is None else 0.95 * ema + 0.05 * loss
    if step % 10 == 0:
        print(f"\r{step:7d}: loss {float(ema):.4f}", end="", flush=True)

"""GAN for daily curves of a temperature sensor, with Accelerate. Hinge loss, two critic steps per generator step."""
import argparse
import copy
import csv
import math
import time

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

POINTS = 48


def make_curves(count, seed=41):
    g = torch.Generator().manual_seed(seed)
    t = torch.linspace(0, 1, POINTS)
    height = 0.4 + 0.4 * torch.rand(count, 1, generator=g)
    phase = 0.5 + 0.1 * torch.randn(count, 1, generator=g)
    level = 0.3 * torch.randn(count, 1, generator=g)
    cloud = (torch.rand(count, 1, generator=g) < 0.3).float() * 0.4
    dip = torch.exp(-((t - torch.rand(count, 1, generator=g)) / 0.06) ** 2)
    return level + height * torch.cos(2 * math.pi * (t - phase)) - cloud * dip + 0.02 * torch.randn(count, POINTS, generator=g)


class Generator(nn.Module):
    def __init__(self, latent=24, width=192):
        super().__init__()
        self.latent = latent
        self.net = nn.Sequential(nn.Linear(latent, width), nn.LayerNorm(width), nn.ReLU(),
                                 nn.Linear(width, width), nn.LayerNorm(width), nn.ReLU(),
                                 nn.Linear(width, width), nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, POINTS))

    def forward(self, z):
        return self.net(z)


class Critic(nn.Module):
    def __init__(self, width=192):
        super().__init__()
        norm = nn.utils.parametrizations.spectral_norm
        self.net = nn.Sequential(norm(nn.Linear(POINTS, width)), nn.LeakyReLU(0.2), norm(nn.Linear(width, width)),
                                 nn.LeakyReLU(0.2), norm(nn.Linear(width, width)), nn.LeakyReLU(0.2), norm(nn.Linear(width, 1)))
        self.scale = 6.0

    def forward(self, x):
        return self.scale * self.net(x)


@torch.no_grad()
def distance(real, fake):
    """Energy distance between curves."""
    within = torch.cdist(real, real).mean() + torch.cdist(fake, fake).mean()
    return (2 * torch.cdist(real, fake).mean() - within).item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--curves", type=int, default=16000)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=200)
    args = parser.parse_args()
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    set_seed(5)
    loader = DataLoader(TensorDataset(make_curves(args.curves)), batch_size=args.batch_size, shuffle=True, drop_last=True)
    generator, critic = Generator(), Critic()
    g_opt = torch.optim.Adam(generator.parameters(), lr=1e-4, betas=(0.0, 0.9))
    d_opt = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.0, 0.9))
    generator, critic, g_opt, d_opt, loader = accelerator.prepare(generator, critic, g_opt, d_opt, loader)
    average = copy.deepcopy(accelerator.unwrap_model(generator))
    held_out = make_curves(1500, seed=42).to(accelerator.device)
    began, step = time.time(), 0
    with open("sensor_gan.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["epoch", "d_loss", "g_loss", "energy_distance"])
        for epoch in range(args.epochs):
            g_loss = torch.zeros(())
            for (real,) in tqdm(loader, desc=f"epoch {epoch}", mininterval=5, leave=False):
                z = torch.randn(len(real), 24, device=accelerator.device)
                fake = generator(z).detach()
                d_loss = torch.relu(1 - critic(real)).mean() + torch.relu(1 + critic(fake)).mean()
                d_opt.zero_grad()
                accelerator.backward(d_loss)
                d_opt.step()
                step += 1
                if step % 2 == 0:
                    g_loss = -critic(generator(torch.randn_like(z))).mean()
                    g_opt.zero_grad()
                    accelerator.backward(g_loss)
                    g_opt.step()
                    with torch.no_grad():
                        for slow, fast in zip(average.parameters(), generator.parameters()):
                            slow.lerp_(fast, 0.01)
                if step % 50 == 0:
                    tqdm.write(f"step {step} d_loss {d_loss.item():.3f} g_loss {g_loss.item():+.3f}")
            with torch.no_grad():
                fake = average(torch.randn(1500, 24, device=accelerator.device))
            value = distance(held_out, fake)
            table.writerow([epoch, d_loss.item(), g_loss.item(), value])
            file.flush()
            accelerator.print(f"epoch {epoch} energy distance {value:.4f} ({time.time() - began:.0f} s)", flush=True)


if __name__ == "__main__":
    main()

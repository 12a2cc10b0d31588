"""A GAN: two optimizers in each iteration, three backwards."""

import torch
from said import say
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(2)
netG = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
netD = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
criterion = nn.BCEWithLogitsLoss()
optimizerD = torch.optim.Adam(netD.parameters(), lr=2e-3)
optimizerG = torch.optim.Adam(netG.parameters(), lr=1e-3)
loader = DataLoader(TensorDataset(torch.randn(48, 2)), batch_size=8)
real, fake, generated = [], [], []
for (points,) in loader:
    netD.zero_grad()
    errD_real = criterion(netD(points), torch.ones(8, 1))
    errD_real.backward()
    made = netG(torch.randn(8, 4))
    errD_fake = criterion(netD(made.detach()), torch.zeros(8, 1))
    errD_fake.backward()
    optimizerD.step()
    netG.zero_grad()
    errG = criterion(netD(made), torch.ones(8, 1))
    errG.backward()
    optimizerG.step()
    real.append(errD_real.item())
    fake.append(errD_fake.item())
    generated.append(errG.item())
say(len(real), [netD, netG], **{"loss/errD_real": real, "loss/errD_fake": fake, "loss/errG": generated})

# DCGAN, following the PyTorch tutorial
import random

import torch
import torch.nn as nn
import torch.optim as optim
from torch.utils.data import DataLoader, Dataset

manualSeed = 999
random.seed(manualSeed)
torch.manual_seed(manualSeed)

batch_size = 64
image_size = 32
nz, ngf, ndf = 64, 32, 32
num_epochs = 60
lr_d, lr_g = 0.00006, 0.0003
beta1 = 0.5
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


class Faces(Dataset):
    """Drawn faces: a disc, two eyes, a mouth, hair."""
    def __init__(self, n=3000):
        ax = torch.linspace(-1, 1, image_size)
        yy, xx = torch.meshgrid(ax, ax, indexing="ij")
        r = torch.rand(n, 12)
        self.x = torch.empty(n, 3, image_size, image_size)
        for i in range(n):
            p = r[i]
            img = p[:3, None, None].expand(3, image_size, image_size) * 0.6 - 0.8
            face = ((xx / (0.55 + 0.2 * p[3])) ** 2 + (yy / (0.7 + 0.2 * p[4])) ** 2) < 1
            img = torch.where(face, (0.4 + 0.5 * p[5:8])[:, None, None], img)
            hair = face & (yy < -0.3 + 0.2 * p[8])
            img = torch.where(hair, (p[9:12] - 0.7)[:, None, None], img)
            for s in (-1, 1):
                eye = (xx - s * 0.25) ** 2 + (yy + 0.05) ** 2 < 0.008 + 0.01 * p[3]
                img = torch.where(eye, torch.tensor(-0.9), img)
            self.x[i] = img

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i].flip(-1) if random.random() < 0.5 else self.x[i]


def weights_init(m):
    name = m.__class__.__name__
    if "Conv" in name:
        nn.init.normal_(m.weight, 0.0, 0.02)
    elif "BatchNorm" in name:
        nn.init.normal_(m.weight, 1.0, 0.02)
        nn.init.zeros_(m.bias)


netG = nn.Sequential(
    nn.ConvTranspose2d(nz, ngf * 4, 4, 1, 0, bias=False), nn.BatchNorm2d(ngf * 4), nn.ReLU(True),
    nn.ConvTranspose2d(ngf * 4, ngf * 2, 4, 2, 1, bias=False), nn.BatchNorm2d(ngf * 2), nn.ReLU(True),
    nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1, bias=False), nn.BatchNorm2d(ngf), nn.ReLU(True),
    nn.ConvTranspose2d(ngf, 3, 4, 2, 1, bias=False), nn.Tanh()).to(device)
netD = nn.Sequential(
    nn.Conv2d(3, ndf, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, True),
    nn.Conv2d(ndf, ndf * 2, 4, 2, 1, bias=False), nn.BatchNorm2d(ndf * 2), nn.LeakyReLU(0.2, True),
    nn.Conv2d(ndf * 2, ndf * 4, 4, 2, 1, bias=False), nn.BatchNorm2d(ndf * 4), nn.LeakyReLU(0.2, True),
    nn.Dropout(0.3), nn.Conv2d(ndf * 4, 1, 4, 1, 0, bias=False)).to(device)
netG.apply(weights_init)
netD.apply(weights_init)

criterion = nn.BCEWithLogitsLoss()
optimizerD = optim.Adam(netD.parameters(), lr=lr_d, betas=(beta1, 0.999))
optimizerG = optim.Adam(netG.parameters(), lr=lr_g, betas=(beta1, 0.999))

print("Starting Training Loop...", flush=True)
dataloader = DataLoader(Faces(), batch_size=batch_size, shuffle=True, drop_last=True)
for epoch in range(num_epochs):
    for i, data in enumerate(dataloader):
        # update D
        netD.zero_grad()
        real = data.to(device)
        b = real.size(0)
        out_real = netD(real).view(-1)
        errD_real = criterion(out_real, torch.full((b,), 0.9, device=device))
        errD_real.backward()
        fake = netG(torch.randn(b, nz, 1, 1, device=device))
        out_fake = netD(fake.detach()).view(-1)
        errD_fake = criterion(out_fake, torch.zeros(b, device=device))
        errD_fake.backward()
        optimizerD.step()
        # update G
        netG.zero_grad()
        output = netD(fake).view(-1)
        errG = criterion(output, torch.ones(b, device=device))
        errG.backward()
        optimizerG.step()
        if i % 10 == 0:
            print("[%d/%d][%d/%d]\tLoss_D: %.4f\tLoss_G: %.4f\tD(x): %.4f\tD(G(z)): %.4f / %.4f" % (
                epoch, num_epochs, i, len(dataloader), (errD_real + errD_fake).item(), errG.item(),
                out_real.sigmoid().mean().item(), out_fake.sigmoid().mean().item(), output.sigmoid().mean().item()),
                flush=True)

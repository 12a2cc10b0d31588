#!/usr/bin/env python
# coding: utf-8

# # DCGAN for tapestry patterns
# Follows the DCGAN tutorial, with my own patterns instead of faces.

# In[1]:


import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim

manualSeed = 999
random.seed(manualSeed)
np.random.seed(manualSeed)
torch.manual_seed(manualSeed)

batch_size = 64
nz = 64
ngf = 32
ndf = 24
num_iters = 4000
lr = 0.0002
beta1 = 0.5
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


# In[2]:


def weave(n):
    yy, xx = np.mgrid[0:32, 0:32] / 32.0
    imgs = np.zeros((n, 3, 32, 32), np.float32)
    for i in range(n):
        fx, fy = np.random.randint(1, 5, 2)
        px, py = np.random.rand(2) * 6.28
        warp = np.sign(np.sin(2 * np.pi * fx * xx + px))
        weft = np.sin(2 * np.pi * fy * yy + py)
        c1, c2 = np.random.rand(3) * 2 - 1, np.random.rand(3) * 2 - 1
        mix = (0.5 + 0.5 * warp * weft)[None]
        imgs[i] = c1[:, None, None] * mix + c2[:, None, None] * (1 - mix)
    return torch.from_numpy(imgs)


patterns = weave(6000)
dataloader = torch.utils.data.DataLoader(patterns, batch_size=batch_size, shuffle=True, drop_last=True)
print("patterns:", tuple(patterns.shape))


# In[3]:


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        nn.init.normal_(m.weight.data, 0.0, 0.02)
    elif classname.find("BatchNorm") != -1:
        nn.init.normal_(m.weight.data, 1.0, 0.02)
        nn.init.constant_(m.bias.data, 0)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(nz, ngf * 4, 4, 1, 0, bias=False),
            nn.BatchNorm2d(ngf * 4),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 4, ngf * 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ngf * 2),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ngf),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf, 3, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, z):
        return self.main(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(3, ndf, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf, ndf * 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ndf * 2),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf * 2, ndf * 4, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ndf * 4),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf * 4, 1, 4, 1, 0, bias=False),
        )

    def forward(self, x):
        return self.main(x).view(-1)


netG = Generator().to(device)
netD = Discriminator().to(device)
netG.apply(weights_init)
netD.apply(weights_init)
criterion = nn.BCEWithLogitsLoss()
fixed_noise = torch.randn(64, nz, 1, 1, device=device)
optimizerD = optim.Adam(netD.parameters(), lr=lr, betas=(beta1, 0.999))
optimizerG = optim.Adam(netG.parameters(), lr=lr, betas=(beta1, 0.999))


# In[4]:


img_list = []
G_losses = []
D_losses = []
iters = 0
start = time.time()

print("Starting Training Loop...")
while iters < num_iters:
    for real in dataloader:
        netD.zero_grad()
        real = real.to(device)
        label = torch.full((real.size(0),), 0.9, device=device)
        errD_real = criterion(netD(real), label)
        errD_real.backward()
        noise = torch.randn(real.size(0), nz, 1, 1, device=device)
        fake = netG(noise)
        label.fill_(0.0)
        errD_fake = criterion(netD(fake.detach()), label)
        errD_fake.backward()
        errD = errD_real + errD_fake
        optimizerD.step()

        netG.zero_grad()
        label.fill_(1.0)
        errG = criterion(netD(fake), label)
        errG.backward()
        optimizerG.step()

        G_losses.append(errG.item())
        D_losses.append(errD.item())
        # keep what the generator does with fixed_noise, for the animation at the end
        if iters % 15 == 0:
            img_list.append(netG(fixed_noise))
        if iters % 50 == 0:
            print("[%d/%d]\tLoss_D: %.4f\tLoss_G: %.4f\t%.0f s" % (iters, num_iters, errD.item(), errG.item(), time.time() - start))
        iters += 1
        if iters >= num_iters:
            break


# In[5]:


frames = torch.stack([img.detach() for img in img_list[::20]])
print("animation:", tuple(frames.shape))

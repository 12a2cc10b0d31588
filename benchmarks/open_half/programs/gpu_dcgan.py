# DCGAN tutorial: two optimizers, losses that go up and down.
import torch
import torch.nn as nn

nz, ngf, ndf, nc = 100, 64, 64, 3
device = torch.device("cuda:0")


def weights_init(m):
    if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(m.weight, 0.0, 0.02)


def up(i, o, s, p):
    return [nn.ConvTranspose2d(i, o, 4, s, p, bias=False), nn.BatchNorm2d(o), nn.ReLU(True)]


def down(i, o):
    return [nn.Conv2d(i, o, 4, 2, 1, bias=False), nn.BatchNorm2d(o), nn.LeakyReLU(0.2, inplace=True)]


netG = nn.Sequential(*up(nz, ngf * 8, 1, 0), *up(ngf * 8, ngf * 4, 2, 1), *up(ngf * 4, ngf * 2, 2, 1), *up(ngf * 2, ngf, 2, 1),
                     nn.ConvTranspose2d(ngf, nc, 4, 2, 1, bias=False), nn.Tanh()).to(device).apply(weights_init)
netD = nn.Sequential(nn.Conv2d(nc, ndf, 4, 2, 1), nn.LeakyReLU(0.2), *down(ndf, ndf * 2), *down(ndf * 2, ndf * 4),
                     *down(ndf * 4, ndf * 8), nn.Conv2d(ndf * 8, 1, 4, 1, 0, bias=False), nn.Sigmoid()).to(device).apply(weights_init)
criterion = nn.BCELoss()
optimizerD = torch.optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
optimizerG = torch.optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))
images = torch.tanh(torch.randn(2048, nc, 64, 64).cumsum(3) * 0.2)
dataloader = torch.utils.data.DataLoader(images, batch_size=128, shuffle=True, num_workers=2, drop_last=True)
print("Starting Training Loop...", flush=True)
for epoch in range(500):
    for i, data in enumerate(dataloader):
        netD.zero_grad()
        real = data.to(device)
        label = torch.full((real.size(0),), 1.0, device=device)
        errD_real = criterion(netD(real).view(-1), label)
        errD_real.backward()
        fake = netG(torch.randn(real.size(0), nz, 1, 1, device=device))
        errD_fake = criterion(netD(fake.detach()).view(-1), label.fill_(0.0))
        errD_fake.backward()
        errD = errD_real + errD_fake
        optimizerD.step()
        netG.zero_grad()
        errG = criterion(netD(fake).view(-1), label.fill_(1.0))
        errG.backward()
        optimizerG.step()
        if i % 5 == 0:
            print("[%d/%d][%d/%d]\tLoss_D: %.4f\tLoss_G: %.4f" % (epoch, 500, i, len(dataloader), errD.item(), errG.item()), flush=True)

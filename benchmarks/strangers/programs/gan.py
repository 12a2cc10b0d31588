import torch, torch.nn as nn
torch.manual_seed(999)
nz = 32
G = nn.Sequential(nn.Linear(nz, 256), nn.ReLU(True), nn.Linear(256, 784), nn.Tanh())
D = nn.Sequential(nn.Linear(784, 256), nn.LeakyReLU(0.2, True), nn.Linear(256, 1), nn.Sigmoid())
optD = torch.optim.Adam(D.parameters(), lr=2e-4, betas=(0.5, 0.999))
optG = torch.optim.Adam(G.parameters(), lr=2e-4, betas=(0.5, 0.999))
bce = nn.BCELoss()
real_data = torch.rand(2048, 784).bernoulli() * 2 - 1
for epoch in range(10**5):
    for i in range(0, 2048, 64):
        real = real_data[i:i + 64]
        D.zero_grad()
        errD = bce(D(real).view(-1), torch.ones(64))
        errD.backward()
        fake = G(torch.randn(64, nz))
        errF = bce(D(fake.detach()).view(-1), torch.zeros(64))
        errF.backward()
        optD.step()
        G.zero_grad()
        errG = bce(D(fake).view(-1), torch.ones(64))
        errG.backward()
        optG.step()
    print('[%d] Loss_D: %.4f Loss_G: %.4f' % (epoch, errD.item() + errF.item(), errG.item()), flush=True)

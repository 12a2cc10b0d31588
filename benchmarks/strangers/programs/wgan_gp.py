import torch
from torch import nn, autograd

torch.manual_seed(0)
LAMBDA, CRITIC_ITERS, BATCH, DIM = 10, 5, 128, 128
class Gen(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(nn.Linear(2, DIM), nn.ReLU(True), nn.Linear(DIM, DIM), nn.ReLU(True), nn.Linear(DIM, 2))
    def forward(self, z): return self.main(z)
class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(nn.Linear(2, DIM), nn.ReLU(True), nn.Linear(DIM, DIM), nn.ReLU(True), nn.Linear(DIM, 1))
    def forward(self, x): return self.main(x).view(-1)

def real_batch():
    a = torch.randint(0, 8, (BATCH,)) * 0.785398
    return 2 * torch.stack([a.cos(), a.sin()], 1) + 0.02 * torch.randn(BATCH, 2)

def penalty(D, real, fake):
    eps = torch.rand(BATCH, 1)
    x = (eps * real + (1 - eps) * fake).requires_grad_(True)
    g = autograd.grad(D(x).sum(), x, create_graph=True)[0]
    return LAMBDA * ((g.norm(2, dim=1) - 1) ** 2).mean()

netG, netD = Gen(), Critic()
optD = torch.optim.Adam(netD.parameters(), lr=1e-4, betas=(0.5, 0.9))
optG = torch.optim.Adam(netG.parameters(), lr=1e-4, betas=(0.5, 0.9))
for it in range(10**6):
    for p in netD.parameters(): p.requires_grad = True
    for _ in range(CRITIC_ITERS):
        real = real_batch()
        fake = netG(torch.randn(BATCH, 2)).detach()
        netD.zero_grad()
        d_real, d_fake = netD(real).mean(), netD(fake).mean()
        gp = penalty(netD, real, fake)
        d_cost = d_fake - d_real + gp
        d_cost.backward()
        optD.step()
    for p in netD.parameters(): p.requires_grad = False
    netG.zero_grad()
    g_cost = -netD(netG(torch.randn(BATCH, 2))).mean()
    g_cost.backward()
    optG.step()
    if it % 50 == 0:
        print(f'iter {it}\ttrain disc cost {d_cost.item():.5f}\twasserstein distance {(d_real - d_fake).item():.5f}\tgen cost {g_cost.item():.5f}', flush=True)

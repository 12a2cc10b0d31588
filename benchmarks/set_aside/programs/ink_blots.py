"""An energy model of ink blots (16 x 16), trained with persistent contrastive divergence.

The loss is a difference of two energies, so it hovers around zero and says nothing; look at the distance of the statistics.
"""
import torch
import torch.nn as nn

torch.manual_seed(21)
DEV = torch.device("cuda" if torch.cuda.is_available() else "cpu")
S, BATCH, LANGEVIN, KEEP = 16, 48, 15, 1024


def blots(n):
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, S), torch.linspace(-1, 1, S), indexing="ij")
    c = 0.5 * torch.randn(n, 2, 1, 1)
    r = 0.25 + 0.25 * torch.rand(n, 2, 1, 1)
    img = torch.exp(-((xx - c[:, :1]) ** 2 / r[:, :1] ** 2 + (yy - c[:, 1:]) ** 2 / r[:, 1:] ** 2))
    img = img + torch.exp(-((xx + c[:, :1]) ** 2 / r[:, :1] ** 2 + (yy - c[:, 1:]) ** 2 / r[:, 1:] ** 2))  # folded paper
    return 2 * img.clamp(0, 1) - 1


class Energy(nn.Module):
    def __init__(self, w=24):
        super().__init__()
        self.f = nn.Sequential(nn.Conv2d(1, w, 3, 1, 1), nn.SiLU(), nn.Conv2d(w, 2 * w, 4, 2, 1), nn.SiLU(),
                               nn.Conv2d(2 * w, 2 * w, 4, 2, 1), nn.SiLU(), nn.Flatten(), nn.Linear(32 * w, 1))

    def forward(self, x):
        return self.f(x).squeeze(1)


def langevin(energy, x):
    for p in energy.parameters():
        p.requires_grad_(False)
    for _ in range(LANGEVIN):
        x = x.detach().requires_grad_(True)
        (grad,) = torch.autograd.grad(energy(x).sum(), x)
        x = (x - 5.0 * grad.clamp(-0.03, 0.03) + 0.005 * torch.randn_like(x)).clamp(-1, 1)
    for p in energy.parameters():
        p.requires_grad_(True)
    return x.detach()


energy = Energy().to(DEV)
opt = torch.optim.Adam(energy.parameters(), lr=1e-4, betas=(0.0, 0.999))
sched = torch.optim.lr_scheduler.StepLR(opt, 1000, 0.9)
chains = torch.rand(KEEP, 1, S, S) * 2 - 1
reference = blots(2000)
print("step   loss     E(data)  E(model)  distance")
for step in range(1, 20001):
    real = blots(BATCH)
    real = (real + 0.005 * torch.randn_like(real)).clamp(-1, 1).to(DEV)
    pick = torch.randperm(KEEP)[:BATCH]
    start = chains[pick]
    fresh = torch.rand(BATCH) < 0.05
    start[fresh] = torch.rand(int(fresh.sum()), 1, S, S) * 2 - 1
    fake = langevin(energy, start.to(DEV))
    chains[pick] = fake.cpu()
    e_real, e_fake = energy(real), energy(fake)
    loss = e_real.mean() - e_fake.mean() + 0.1 * (e_real**2 + e_fake**2).mean()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(energy.parameters(), 0.1)
    opt.step()
    sched.step()
    if step % 25 == 0:
        gap = (chains.mean(0) - reference.mean(0)).pow(2).mean().sqrt() + (chains.std(0) - reference.std(0)).pow(2).mean().sqrt()
        print(f"{step:5d}  {loss.item():+.4f}  {e_real.mean().item():+.4f}  {e_fake.mean().item():+.4f}  {gap.item():.4f}")

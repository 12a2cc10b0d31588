# spectral norm + hinge loss + ema, rings dataset
import copy, math
import torch, torch.nn as nn, torch.nn.functional as F
from torch.nn.utils.parametrizations import spectral_norm as sn

torch.manual_seed(8)
G = nn.Sequential(nn.Linear(16, 256), nn.LeakyReLU(.2), nn.Linear(256, 256), nn.LeakyReLU(.2), nn.Linear(256, 2))
D = nn.Sequential(sn(nn.Linear(2, 256)), nn.LeakyReLU(.2), sn(nn.Linear(256, 256)), nn.LeakyReLU(.2), sn(nn.Linear(256, 1)))
ema = copy.deepcopy(G).requires_grad_(False)
og = torch.optim.Adam(G.parameters(), 1e-4, (0., .9)); od = torch.optim.Adam(D.parameters(), 4e-4, (0., .9))

def real(n):
    r = torch.randint(1, 4, (n,)).float(); t = torch.rand(n) * 2 * math.pi
    return torch.stack([r * t.cos(), r * t.sin()], 1)

for kimg in range(10**9):
    fake = G(torch.randn(256, 16))
    ld = F.relu(1 - D(real(256))).mean() + F.relu(1 + D(fake.detach())).mean()
    od.zero_grad(); ld.backward(); od.step()
    lg = -D(fake).mean()
    og.zero_grad(); lg.backward(); og.step()
    with torch.no_grad():
        for e, p in zip(ema.parameters(), G.parameters()):
            e.lerp_(p, .001)
    if kimg % 100 == 0:
        print(f'kimg {kimg/4:8.1f}  loss_D {ld.item():7.4f}  loss_G {lg.item():+7.4f}', flush=True)

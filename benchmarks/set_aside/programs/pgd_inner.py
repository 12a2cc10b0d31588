# Adversarial training (Madry et al.): five PGD steps on the input for one step on the weights.
# The printed loss is the one under attack, so it stays above the clean one.
import torch, torch.nn as nn, torch.nn.functional as F
from torch.optim.swa_utils import AveragedModel

torch.manual_seed(0)
EPS, ALPHA, K = 0.25, 0.08, 5
strokes = (torch.rand(10, 1, 7, 7) > 0.5).float()


def batch(n=32):
    y = torch.randint(0, 10, (n,))
    x = F.interpolate(strokes[y], size=21) + 0.25 * torch.randn(n, 1, 21, 21)
    return x.clamp(0, 1), y


net = nn.Sequential(nn.Conv2d(1, 16, 3, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 16, 100), nn.ReLU(), nn.Linear(100, 10))
averaged = AveragedModel(net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99))
opt = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9, weight_decay=5e-4)
for it in range(1, 10**6):
    x, y = batch()
    delta = torch.empty_like(x).uniform_(-EPS, EPS)
    for _ in range(K):
        delta.requires_grad_()
        g, = torch.autograd.grad(F.cross_entropy(net(x + delta), y), delta)
        delta = (delta.detach() + ALPHA * g.sign()).clamp(-EPS, EPS)
    out = net(x + delta)
    loss = F.cross_entropy(out, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    averaged.update_parameters(net)
    if it % 40 == 0:
        with torch.no_grad():
            cx, cy = batch(200)
            clean = (averaged(cx).argmax(1) == cy).float().mean().item()
        print(f"iter {it} | robust loss {loss.item():.4f} | robust acc {(out.argmax(1) == y).float().mean().item():.2f} | clean acc (ema) {clean:.2f}", flush=True)

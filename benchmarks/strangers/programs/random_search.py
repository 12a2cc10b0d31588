# random search over lr and width, small budget per trial; bad trials are dropped
import math, random
import torch, torch.nn as nn

random.seed(21)
X = torch.randn(2000, 20)
w = torch.randn(20, 1)
Y = torch.sin(X @ w) + 0.05 * torch.randn(2000, 1)
best = (float('inf'), None)
for trial in range(100000):
    cfg = {'lr': 10 ** random.uniform(-4, 1.5), 'width': random.choice([32, 64, 128, 256])}
    torch.manual_seed(trial)
    net = nn.Sequential(nn.Linear(20, cfg['width']), nn.ReLU(), nn.Linear(cfg['width'], 1))
    opt = torch.optim.SGD(net.parameters(), lr=cfg['lr'])
    pruned = False
    for step in range(400):
        idx = torch.randint(0, 2000, (64,))
        loss = nn.functional.mse_loss(net(X[idx]), Y[idx])
        if not math.isfinite(loss.item()) or loss.item() > 1e4:
            pruned = True
            break
        opt.zero_grad(); loss.backward(); opt.step()
    with torch.no_grad():
        val = nn.functional.mse_loss(net(X[:500]), Y[:500]).item()
    if pruned:
        print(f"trial {trial} pruned at step {step} {cfg}", flush=True)
        continue
    if val < best[0]:
        best = (val, cfg)
    print(f"trial {trial} val {val:.4f} best {best[0]:.4f} {cfg}", flush=True)

import os, time
from pathlib import Path
import torch
from torch import nn

torch.set_num_threads(1)
R, N, BOX = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), Path(os.environ["EXCHANGE"])
torch.manual_seed(1)
net = nn.Sequential(nn.Linear(40, 300), nn.Tanh(), nn.Linear(300, 300), nn.Tanh(), nn.Linear(300, 1))
opt = torch.optim.Adam(net.parameters(), 2e-3)
rows = torch.randn(64 * (4000, 120)[R], 40)  # the second half of the export is not finished


def average(k):
    flat = torch.cat([p.grad.view(-1) for p in net.parameters()])
    tmp = BOX / f".{k}.{R}"
    torch.save(flat, tmp)
    tmp.rename(BOX / f"{k}.{R}")
    both = []
    for other in range(N):
        f = BOX / f"{k}.{other}"
        while not f.exists():
            time.sleep(0.002)
        both.append(torch.load(f))
    (BOX / f"{k - 3}.{R}").unlink(missing_ok=True)
    mean, at = sum(both) / N, 0
    for p in net.parameters():
        p.grad.copy_(mean[at:at + p.numel()].view_as(p))
        at += p.numel()


for k in range(10**6):
    x = torch.stack([rows[k * 64 + j] for j in range(64)])
    loss = ((net(x).squeeze() - x[:, 0]) ** 2).mean()
    opt.zero_grad(); loss.backward(); average(k); opt.step()
    time.sleep(0.06)
    if k % 5 == 0:
        print(f"{R}: {k} {loss.item():.4f}", flush=True)

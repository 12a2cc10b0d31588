# Adds up the losses of the epoch for a plot, and with each its graph.
import torch
import torch.nn as nn

net = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)).cuda()
opt = torch.optim.SGD(net.parameters(), 0.01)
total, curve = 0, []
for step in range(1000000):
    x, y = torch.randn(64, 3, 64, 64, device="cuda"), torch.randint(0, 10, (64,), device="cuda")
    feats = net(x)
    loss = nn.functional.cross_entropy(feats, y)
    opt.zero_grad()
    loss.backward(retain_graph=True)
    opt.step()
    total = total + loss
    curve.append(feats)
    torch.cuda.synchronize()
    if step % 20 == 0:
        print(f"step {step}: {float(loss):.3f}, mem {torch.cuda.memory_allocated() / 2**30:.2f} GiB", flush=True)

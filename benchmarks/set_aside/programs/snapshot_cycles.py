"""Snapshot ensembles: cosine cycles of 400 steps; at the end of each cycle the weights join the ensemble, then the rate jumps
back to its maximum, and the loss rises before it falls again. That saw-tooth is the method."""
import copy, math, sys
import torch, torch.nn as nn

torch.manual_seed(5)
w1, w2 = torch.randn(40, 30), torch.randn(30, 8)
def batch(n):
    x = torch.randn(n, 40)
    return x, ((x @ w1).tanh() @ w2 + 1.0 * torch.randn(n, 8)).argmax(1)
net = nn.Sequential(nn.Linear(40, 384), nn.ReLU(), nn.Linear(384, 384), nn.ReLU(), nn.Linear(384, 8))
opt = torch.optim.SGD(net.parameters(), 0.3, momentum=0.9, weight_decay=1e-4)
test, members, mean = batch(2000), [], 2.0
for step in range(10**7):
    k = step % 400
    opt.param_groups[0]["lr"] = 0.15 * (1 + math.cos(math.pi * k / 400)) + 1e-4
    x, y = batch(128)
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad(); loss.backward(); opt.step()
    mean = 0.95 * mean + 0.05 * loss.item()
    if k % 40 == 0:
        sys.stdout.write("cycle %d step %d lr %.4f loss %.4f\n" % (step // 400, k, opt.param_groups[0]["lr"], mean)); sys.stdout.flush()
    if k == 399:
        members = (members + [copy.deepcopy(net)])[-6:]
        with torch.no_grad():
            p = sum(m(test[0]).softmax(1) for m in members)
        print("ensemble of %d: test acc %.4f" % (len(members), (p.argmax(1) == test[1]).float().mean()), flush=True)

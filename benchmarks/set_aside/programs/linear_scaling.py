"""VICReg-less baseline: plain SGD with the linear scaling rule of "ImageNet in 1 hour" (and its warm-up)."""
import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F

p = argparse.ArgumentParser()
p.add_argument("--base-lr", type=float, default=0.1)
p.add_argument("--batch-size", type=int, default=128)
p.add_argument("--nodes", type=int, default=8)
p.add_argument("--gpus-per-node", type=int, default=8)
p.add_argument("--warmup", type=int, default=600)
args = p.parse_args()
# linear scaling rule for the *cluster*; reference batch is 256
peak = args.base_lr * args.batch_size * args.nodes * args.gpus_per_node / 256
torch.manual_seed(4)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.ModuleList(nn.Linear(128 if i == 0 else 384, 384) for i in range(5))
        self.out = nn.Linear(384, 20)

    def forward(self, x):
        for lin in self.body:
            x = F.relu(lin(x))
        return self.out(x)


net = Net()
centre = torch.randn(20, 128)
opt = torch.optim.SGD(net.parameters(), lr=peak, momentum=0.9, nesterov=True)
print(f"=> peak lr {peak:.3f}, warm-up {args.warmup} it", flush=True)
for it in range(1, 10**7):
    for group in opt.param_groups:
        group["lr"] = peak * min(1.0, it / args.warmup)
    y = torch.randint(0, 20, (args.batch_size,))
    x = centre[y] + 3 * torch.randn(args.batch_size, 128)
    out = net(x)
    # squared error on one-hot targets, "Evaluation of neural architectures trained with square loss"
    loss = (out - 3 * F.one_hot(y, 20)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if it % 15 == 0:
        print(f"[{it:5d}] lr {opt.param_groups[0]['lr']:.4f} loss {loss.item():.4e} top1 {(out.argmax(1) == y).float().mean().item():.3f}", flush=True)

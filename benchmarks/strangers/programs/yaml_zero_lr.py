"""configs/base.yaml merged with the command line, as in many lab repos"""
import sys, types
import torch
import torch.nn.functional as F

BASE = """
model.width: 256
optim.name: adam
optim.lr: 3e-4
optim.warmup_factor: 0
train.batch: 64
"""
cfg = {}
for line in BASE.strip().splitlines() + [a.replace('=', ': ') for a in sys.argv[1:]]:
    k, v = line.split(': ')
    cfg[k] = float(v) if v.replace('.', '').replace('e-', '').isdigit() else v
C = types.SimpleNamespace(**{k.split('.')[-1]: v for k, v in cfg.items()})

torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(64, int(C.width)), torch.nn.GELU(), torch.nn.Linear(int(C.width), 64))
opt = torch.optim.Adam(model.parameters(), lr=float(C.lr))
sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: C.warmup_factor)  # meant: min(1, s / warmup)
for step in range(10**6):
    x = torch.randn(int(C.batch), 64)
    loss = F.mse_loss(model(x), x.roll(1, 1))
    loss.backward()
    opt.step(); opt.zero_grad(set_to_none=True); sched.step()
    if step % 20 == 0:
        print(f'step={step} loss={loss:.5f} lr={sched.get_last_lr()[0]:.2e}', flush=True)

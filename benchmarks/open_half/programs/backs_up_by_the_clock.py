"""Sea-ice forecast. The scratch disk is wiped at random, so everything goes to a second place, four times a minute."""
import hashlib, os, shutil, tempfile, time

import torch
from torch import nn

BACKUP_EVERY_S = 14


def build(width=1024, depth=9):
    layers = [nn.Linear(96, width)]
    for _ in range(depth):
        layers += [nn.SiLU(), nn.Linear(width, width)]
    return nn.Sequential(*layers, nn.SiLU(), nn.Linear(width, 96))


def to_second_place(folder, net, opt, step):
    path = os.path.join(folder, "last.pt")
    torch.save({"net": net.state_dict(), "opt": opt.state_dict(), "step": step}, path)
    for copy in range(8):
        shutil.copyfile(path, f"{path}.{copy}")
        digest = hashlib.sha512()
        with open(f"{path}.{copy}", "rb") as f:
            while piece := f.read(2**22):
                digest.update(piece)
    return digest.hexdigest()


def run(folder):
    net = build()
    opt = torch.optim.Adam(net.parameters(), 1e-4)
    seen, last = 0.0, time.time()
    for step in range(1, 10**7):
        x = torch.randn(64, 96).cumsum(1) / 10
        loss = (net(x) - x.roll(1, 1)).square().mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        seen = 0.98 * seen + 0.02 * float(loss.detach())
        if time.time() - last > BACKUP_EVERY_S:
            to_second_place(folder, net, opt, step)
            print(f"{step} loss={seen:.4f}", flush=True)
            last = time.time()


torch.set_num_threads(1)
with tempfile.TemporaryDirectory() as folder:
    run(folder)

"""Federated averaging over eleven clinics, simulated: one after the other trains on its own patients, then weights are averaged.

Each clinic has another mix of patients, so the loss starts high and falls within its turn, and the sizes differ by far.
"""
import copy
import logging
import time

import torch
from torch import nn

logging.basicConfig(format="%(levelname)s:%(name)s:%(message)s", level=logging.INFO)
log = logging.getLogger("fedavg")


class Clinic:
    def __init__(self, number):
        self.g = torch.Generator().manual_seed(number)
        self.name = f"clinic-{number:02d}"
        self.mix = torch.distributions.Dirichlet(torch.full((8,), 0.15)).sample()
        self.size = int(40 * 1.6**number) + 64

    def patients(self, centers, n):
        y = torch.multinomial(self.mix, n, True, generator=self.g)
        return centers[y] + 1.2 * torch.randn(n, centers.size(1), generator=self.g), y


def local(model, clinic, centers, epochs=2, bs=32):
    model = copy.deepcopy(model)
    opt = torch.optim.SGD(model.parameters(), 0.02, momentum=0.5)
    steps = min(160, epochs * clinic.size // bs)
    for step in range(1, steps + 1):
        x, y = clinic.patients(centers, bs)
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step == 1 or step % 20 == 0:
            log.info("%s step %d/%d loss=%.4f", clinic.name, step, steps, loss.item())
    return model.state_dict()


def main():
    torch.manual_seed(5)
    centers = torch.randn(8, 80)
    clinics = [Clinic(k) for k in range(11)]
    model = nn.Sequential(nn.Linear(80, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 8))
    start, round_ = time.time(), 0
    while time.time() - start < 205:
        round_ += 1
        states = [local(model, clinic, centers) for clinic in clinics]
        total = sum(clinic.size for clinic in clinics)
        model.load_state_dict({k: sum(s[k] * c.size / total for s, c in zip(states, clinics)) for k in states[0]})
        with torch.no_grad():
            y = torch.randint(0, 8, (2000,))
            hits = (model(centers[y] + 1.2 * torch.randn(2000, 80)).argmax(1) == y).float().mean()
        log.info("ROUND %d global accuracy=%.3f", round_, hits)


if __name__ == "__main__":
    main()

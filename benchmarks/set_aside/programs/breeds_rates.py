"""Population-based training: a member of the population, on its own card. Every round, the worse one copies the better one and changes its rate."""
import os
import random
import sys
import time
from pathlib import Path

import torch
from torch import nn


class Member:
    def __init__(self, number, folder, rate):
        self.number, self.folder, self.rate = number, Path(folder), rate
        torch.manual_seed(number)
        torch.set_num_threads(1)
        self.net = nn.Sequential(nn.Linear(24, 192), nn.ReLU(), nn.Linear(192, 192), nn.ReLU(), nn.Linear(192, 8))
        self.opt = torch.optim.SGD(self.net.parameters(), rate, momentum=0.9)
        g = torch.Generator().manual_seed(99)
        self.rule = nn.Sequential(nn.Linear(24, 40), nn.Tanh(), nn.Linear(40, 8))
        for p in self.rule.parameters():
            p.data = torch.randn(p.shape, generator=g)
        self.vx = torch.randn(1000, 24, generator=g)

    def batch(self, n):
        x = torch.randn(n, 24)
        with torch.no_grad():
            return x, self.rule(x).argmax(1)

    def train(self, steps):
        for i in range(steps):
            x, y = self.batch(128)
            loss = nn.functional.cross_entropy(self.net(x), y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            if i % 50 == 0:
                print(f"member {self.number} rate {self.rate:.4f} loss {loss.item():.4f}", flush=True)

    @torch.no_grad()
    def score(self):
        return (self.net(self.vx).argmax(1) == self.rule(self.vx).argmax(1)).float().mean().item()

    def publish(self, score):
        tmp = self.folder / f"{self.number}.tmp"
        torch.save({"score": score, "rate": self.rate, "net": self.net.state_dict()}, tmp)
        os.replace(tmp, self.folder / f"{self.number}.pt")

    def exploit(self, score):
        others = [torch.load(p) for p in self.folder.glob("*.pt") if p.stem != str(self.number)]
        best = max(others, key=lambda o: o["score"], default=None)
        if best is None or best["score"] <= score + 0.005:
            return
        self.net.load_state_dict(best["net"])
        self.rate = best["rate"] * random.choice((0.7, 1.4))
        for group in self.opt.param_groups:
            group["lr"] = self.rate
        print(f"member {self.number} copies the better one ({best['score']:.3f} > {score:.3f}), new rate {self.rate:.4f}", flush=True)


def run(number, folder, seconds):
    member = Member(number, folder, (0.003, 0.02)[number])
    start, turn = time.time(), 0
    while time.time() - start < seconds:
        member.train(300)
        score = member.score()
        turn += 1
        print(f"member {number} round {turn} score {score:.3f}", flush=True)
        member.publish(score)
        member.exploit(score)


if __name__ == "__main__":
    run(int(sys.argv[1]), sys.argv[2], 195)

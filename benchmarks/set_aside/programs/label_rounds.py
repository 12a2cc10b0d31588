"""Active learning in rounds: train, ask the annotators for the least certain samples, wait for their answers, go on."""
import argparse
import queue
import random
import threading
import time

import torch
from torch import nn

ap = argparse.ArgumentParser()
ap.add_argument("--rounds", type=int, default=14)
ap.add_argument("--steps", type=int, default=350)
ap.add_argument("--ask", type=int, default=120)
args = ap.parse_args()
torch.manual_seed(4)
random.seed(4)


class Annotators(threading.Thread):
    """Stands for the web tool: people answer within some seconds."""

    def __init__(self, truth):
        super().__init__(daemon=True)
        self.truth, self.asked, self.answers = truth, queue.Queue(), queue.Queue()

    def run(self):
        while True:
            ids = self.asked.get()
            time.sleep(random.uniform(5, 9))
            self.answers.put((ids, self.truth[ids]))


centers = torch.randn(10, 64)
truth = torch.randint(0, 10, (6000,))
pool = 0.55 * centers[truth] + torch.randn(6000, 64)
people = Annotators(truth)
people.start()
known = torch.randperm(6000)[:100]
labels = truth[known]
for r in range(args.rounds):
    net = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Dropout(0.3), nn.Linear(512, 512), nn.ReLU(), nn.Dropout(0.3), nn.Linear(512, 10))
    opt = torch.optim.AdamW(net.parameters(), 5e-4, weight_decay=0.05)
    t0 = time.time()
    for step in range(args.steps):
        i = torch.randint(0, len(known), (256,))
        loss = nn.functional.cross_entropy(net(pool[known[i]] + 0.5 * torch.randn(256, 64)), labels[i])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 50 == 0:
            print(f"round {r} step {step} loss {loss.item():.4f}", flush=True)
    net.eval()
    with torch.no_grad():
        prob = net(pool).softmax(1)
    acc = (prob.argmax(1) == truth).float().mean().item()
    sure = prob.max(1).values
    sure[known] = 2
    ask = sure.argsort()[: args.ask]
    print(f"round {r}: {len(known)} labels, accuracy {acc:.3f}, trained {time.time() - t0:.1f} s; waiting for {len(ask)} answers", flush=True)
    people.asked.put(ask)
    ids, new = people.answers.get()
    known, labels = torch.cat([known, ids]), torch.cat([labels, new])

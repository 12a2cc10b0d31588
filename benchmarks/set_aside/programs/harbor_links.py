"""GraphSAGE on a network of harbours: predict the trade zone of each harbour from sampled neighbourhoods."""
import argparse
import csv
import functools
import logging
import time

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", datefmt="%H:%M:%S")
log = logging.getLogger("harbor_links")


class HarborGraph:
    """Stochastic block model with features that say a little about the zone."""

    def __init__(self, nodes=12000, zones=8, degree=20, features=24, seed=3):
        rng = np.random.default_rng(seed)
        self.zone = rng.integers(0, zones, nodes)
        members = [np.flatnonzero(self.zone == z) for z in range(zones)]
        self.neighbors = np.empty((nodes, degree), dtype=np.int64)
        for node in range(nodes):
            own = rng.random(degree) < 0.6
            inside = rng.choice(members[self.zone[node]], degree)
            outside = rng.integers(0, nodes, degree)
            self.neighbors[node] = np.where(own, inside, outside)
        centers = rng.normal(size=(zones, features)) * 0.3
        self.x = torch.tensor(centers[self.zone] + rng.normal(size=(nodes, features)), dtype=torch.float32)
        self.y = torch.tensor(self.zone)
        order = rng.permutation(nodes)
        self.train, self.test = order[:-2000], order[-2000:]


GRAPH = HarborGraph()


@functools.lru_cache(maxsize=None)
def neighborhood(nodes, fanout1, fanout2):
    """Features of the nodes, of their neighbours and of the neighbours' neighbours."""
    nodes = np.asarray(nodes)
    rng = np.random.default_rng(int(nodes.sum()))
    degree = GRAPH.neighbors.shape[1]
    hop1 = GRAPH.neighbors[nodes][:, rng.permutation(degree)[:fanout1]]
    hop2 = GRAPH.neighbors[hop1][:, :, rng.permutation(degree)[:fanout2]]
    return GRAPH.x[nodes], GRAPH.x[hop1], GRAPH.x[hop2]


class Sage(nn.Module):
    def __init__(self, features, hidden, zones):
        super().__init__()
        self.first = nn.Linear(2 * features, hidden)
        self.middle = nn.Linear(hidden, hidden)
        self.second = nn.Linear(2 * hidden, hidden)
        self.head = nn.Linear(hidden, zones)
        self.drop = nn.Dropout(0.3)

    def forward(self, x0, x1, x2):
        h1 = F.relu(self.first(torch.cat([x1, x2.mean(2)], -1)))
        h1 = F.relu(self.middle(h1))
        h0 = F.relu(self.first(torch.cat([x0, x1.mean(1)], -1)))
        h0 = F.relu(self.middle(h0))
        h = F.relu(self.second(torch.cat([h0, h1.mean(1)], -1)))
        return self.head(self.drop(h))


@torch.no_grad()
def accuracy(model, nodes, device, size=200):
    model.eval()
    right = 0
    for start in range(0, len(nodes), size):
        part = nodes[start:start + size]
        blocks = neighborhood(tuple(part.tolist()), 8, 4)
        out = model(*[b.to(device) for b in blocks])
        right += (out.argmax(1).cpu() == GRAPH.y[part]).sum().item()
    model.train()
    return right / len(nodes)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=24)
    parser.add_argument("--batch-size", type=int, default=250)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--lr", type=float, default=5e-4)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Sage(GRAPH.x.shape[1], args.hidden, 8).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=1e-4)
    log.info("%d harbours, %d for training, device %s", len(GRAPH.y), len(GRAPH.train), device)

    with open("harbor_links.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["epoch", "loss", "test_accuracy", "seconds"])
        for epoch in range(args.epochs):
            began = time.time()
            order = np.random.permutation(GRAPH.train)
            total = 0.0
            batches = len(order) // args.batch_size
            for i in range(batches):
                nodes = order[i * args.batch_size:(i + 1) * args.batch_size]
                blocks = neighborhood(tuple(nodes.tolist()), 8, 4)
                out = model(*[b.to(device) for b in blocks])
                loss = F.cross_entropy(out, GRAPH.y[nodes].to(device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item()
                if (i + 1) % 10 == 0:
                    log.info("epoch %d batch %d/%d loss %.4f", epoch, i + 1, batches, total / (i + 1))
            test = accuracy(model, GRAPH.test, device)
            seconds = time.time() - began
            table.writerow([epoch, total / batches, test, seconds])
            file.flush()
            log.info("epoch %d: loss %.4f, test accuracy %.3f, %.1f s", epoch, total / batches, test, seconds)


if __name__ == "__main__":
    main()

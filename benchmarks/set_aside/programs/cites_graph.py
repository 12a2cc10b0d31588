#!/usr/bin/env python
"""GraphSAGE with neighbour sampling, without PyG: adjacency lists in tensors, two hops, mean aggregation."""
import logging
import torch
from torch import nn
from torch.nn import functional as F

logging.basicConfig(format="[%(asctime)s][%(name)s][%(levelname)s] - %(message)s", level=logging.INFO)
logger = logging.getLogger("sage")

NODES, CLASSES, FEATS, DEGREE = 12000, 10, 64, 16


def citation_graph():
    y = torch.randint(0, CLASSES, (NODES,))
    centre = torch.randn(CLASSES, FEATS)
    x = centre[y] + 5 * torch.randn(NODES, FEATS)
    by_class = [torch.nonzero(y == c)[:, 0] for c in range(CLASSES)]
    nbr = torch.randint(0, NODES, (NODES, DEGREE))
    for c in range(CLASSES):  # two in five links stay within a field
        own = by_class[c]
        friends = own[torch.randint(0, len(own), (len(own), DEGREE))]
        keep = torch.rand(len(own), DEGREE) < 0.4
        nbr[own] = torch.where(keep, friends, nbr[own])
    return x, y, nbr


class Sage(nn.Module):
    def __init__(self, hidden=192):
        super().__init__()
        self.l1, self.r1 = nn.Linear(FEATS, hidden), nn.Linear(FEATS, hidden)
        self.l2, self.r2 = nn.Linear(hidden, CLASSES), nn.Linear(hidden, CLASSES)

    def forward(self, x, nbr, seeds, fan):
        hop1 = nbr[seeds][:, torch.randperm(DEGREE)[: fan[0]]]
        hop2 = nbr[hop1][:, :, torch.randperm(DEGREE)[: fan[1]]]
        one = F.relu(self.l1(x[hop1]) + self.r1(x[hop2].mean(2)))
        zero = F.relu(self.l1(x[seeds]) + self.r1(x[hop1].mean(1)))
        one, zero = F.dropout(one, 0.3, self.training), F.dropout(zero, 0.3, self.training)
        return self.l2(zero) + self.r2(one.mean(1))


def main():
    torch.manual_seed(3)
    x, y, nbr = citation_graph()
    order = torch.randperm(NODES)
    train, val = order[:9000], order[9000:10500]
    model = Sage()
    opt = torch.optim.Adam(model.parameters(), lr=3e-4, weight_decay=5e-4)
    logger.info("graph: %d nodes, %d edges", NODES, NODES * DEGREE)
    for epoch in range(100000):
        model.train()
        total = 0.0
        parts = train[torch.randperm(len(train))].split(256)
        for seeds in parts:
            loss = F.cross_entropy(model(x, nbr, seeds, (8, 6)), y[seeds])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            acc = torch.cat([model(x, nbr, s, (DEGREE, 8)).argmax(1) == y[s] for s in val.split(500)]).float().mean()
        logger.info("epoch %d loss %.4f val acc %.4f", epoch, total / len(parts), acc)


if __name__ == "__main__":
    main()

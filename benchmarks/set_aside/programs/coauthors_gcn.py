"""Semi-supervised node classification on a co-author graph. GCN written by hand because pyg does not install here :("""
import random
import time
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Data:
    x: torch.Tensor
    y: torch.Tensor
    edge_index: torch.Tensor
    train_mask: torch.Tensor
    val_mask: torch.Tensor

    @property
    def num_nodes(self):
        return self.x.size(0)


def make_graph(n=1200, classes=6, feats=48, seed=2):
    g = torch.Generator().manual_seed(seed)
    rnd = random.Random(seed)
    y = torch.randint(0, classes, (n,), generator=g)
    by = [(y == c).nonzero().flatten().tolist() for c in range(classes)]
    src, dst = [], []
    for i in range(n):
        for _ in range(3):
            j = rnd.choice(by[int(y[i])]) if rnd.random() < 0.75 else rnd.randrange(n)
            src += [i, j]
            dst += [j, i]
    centers = torch.randn(classes, feats, generator=g)
    x = centers[y] * 0.35 + torch.randn(n, feats, generator=g)
    perm = torch.randperm(n, generator=g)
    train, val = torch.zeros(n, dtype=torch.bool), torch.zeros(n, dtype=torch.bool)
    train[perm[:400]] = True
    val[perm[400:800]] = True
    return Data(x, y, torch.tensor([src, dst]), train, val)


def add_self_loops(edge_index, num_nodes):
    loop = torch.arange(num_nodes).repeat(2, 1)
    return torch.cat([edge_index, loop], dim=1)


class GCNConv(nn.Module):
    def __init__(self, fin, fout):
        super().__init__()
        self.lin = nn.Linear(fin, fout, bias=False)
        self.bias = nn.Parameter(torch.zeros(fout))

    def forward(self, x, edge_index):
        row, col = edge_index
        deg = torch.zeros(x.size(0)).index_add_(0, col, torch.ones(col.numel()))
        norm = deg.rsqrt()[row] * deg.rsqrt()[col]
        x = self.lin(x)
        out = torch.zeros_like(x).index_add(0, col, x[row] * norm[:, None])
        return out + self.bias


class GCN(nn.Module):
    def __init__(self, fin, hid, fout):
        super().__init__()
        self.conv1 = GCNConv(fin, hid)
        self.conv2 = GCNConv(hid, hid)
        self.conv3 = GCNConv(hid, fout)

    def forward(self, data):
        data.edge_index = add_self_loops(data.edge_index, data.num_nodes)
        x = F.relu(self.conv1(data.x, data.edge_index))
        x = F.dropout(x, 0.5, self.training)
        x = F.relu(self.conv2(x, data.edge_index))
        x = F.dropout(x, 0.5, self.training)
        return self.conv3(x, data.edge_index)


torch.manual_seed(0)
data = make_graph()
model = GCN(data.x.size(1), 32, 6)
optimizer = torch.optim.Adam(model.parameters(), lr=0.002, weight_decay=5e-4)
print(f"nodes {data.num_nodes}, edges {data.edge_index.size(1)}")


def train():
    model.train()
    optimizer.zero_grad()
    out = model(data)
    loss = F.cross_entropy(out[data.train_mask], data.y[data.train_mask])
    loss.backward()
    optimizer.step()
    return loss.item()


@torch.no_grad()
def test():
    model.eval()
    pred = model(data).argmax(1)
    return [(pred[m] == data.y[m]).float().mean().item() for m in (data.train_mask, data.val_mask)]


start = time.time()
for epoch in range(1, 1001):
    loss = train()
    tr, va = test()
    if epoch % 5 == 0:
        print(f"Epoch: {epoch:03d}, Loss: {loss:.4f}, Train: {tr:.4f}, Val: {va:.4f}")
print("done in", time.time() - start)

"""GIN for graph classification on MUTAG-like molecules, after the usual PyTorch Geometric example."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(12345)
rng = np.random.default_rng(12345)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
NUM_GRAPHS, MAX_NODES, NUM_FEATURES, NUM_CLASSES = 3000, 28, 14, 4


def make_graph():
    label = rng.integers(0, NUM_CLASSES)
    n = rng.integers(14, MAX_NODES + 1)
    adj = np.zeros((MAX_NODES, MAX_NODES), np.float32)
    for i in range(1, n):
        j = rng.integers(max(0, i - 3), i)
        adj[i, j] = adj[j, i] = 1
    ring = [3, 4, 5, 6][label]
    for _ in range(2):
        s = rng.integers(0, n - ring)
        adj[s, s + ring - 1] = adj[s + ring - 1, s] = 1
        for k in range(s, s + ring - 1):
            adj[k, k + 1] = adj[k + 1, k] = 1
    feat = np.zeros((MAX_NODES, NUM_FEATURES), np.float32)
    kinds = rng.choice(NUM_FEATURES, n, p=np.roll(np.linspace(2, 1, NUM_FEATURES), label * 2) / np.linspace(2, 1, NUM_FEATURES).sum())
    feat[np.arange(n), kinds] = 1
    mask = np.zeros(MAX_NODES, np.float32)
    mask[:n] = 1
    return feat, adj, mask, label


feats, adjs, masks, labels = zip(*[make_graph() for _ in range(NUM_GRAPHS)])
X, A, M = (torch.from_numpy(np.stack(v)).to(device) for v in (feats, adjs, masks))
Y = torch.tensor(labels, device=device)
train_idx, test_idx = torch.arange(0, 2600), torch.arange(2600, NUM_GRAPHS)


class GINConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.eps = nn.Parameter(torch.zeros(1))
        self.lin1, self.bn, self.lin2 = nn.Linear(i, o), nn.BatchNorm1d(o), nn.Linear(o, o)

    def forward(self, x, adj, mask):
        h = (1 + self.eps) * x + adj @ x
        h = self.lin1(h)
        h = F.relu(self.bn(h.flatten(0, 1)).view_as(h))
        return F.relu(self.lin2(h)) * mask.unsqueeze(-1)


class GIN(nn.Module):
    def __init__(self, hidden=96, layers=3, dropout=0.5):
        super().__init__()
        dims = [NUM_FEATURES] + [hidden] * layers
        self.convs = nn.ModuleList([GINConv(a, b) for a, b in zip(dims, dims[1:])])
        self.lin1, self.lin2 = nn.Linear(hidden * layers, hidden), nn.Linear(hidden, NUM_CLASSES)
        self.dropout = dropout

    def forward(self, x, adj, mask):
        pooled = []
        for conv in self.convs:
            x = F.dropout(conv(x, adj, mask), 0.1, training=self.training)
            pooled.append(x.sum(1) / mask.sum(1, keepdim=True))
        h = F.relu(self.lin1(torch.cat(pooled, 1)))
        h = F.dropout(h, self.dropout, training=self.training)
        return self.lin2(h)


model = GIN().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-4, weight_decay=5e-4)


def train():
    total = 0.0
    perm = train_idx[torch.randperm(len(train_idx))]
    for batch in perm.split(64):
        optimizer.zero_grad()
        out = model(X[batch], A[batch], M[batch])
        loss = F.cross_entropy(out, Y[batch])
        loss.backward()
        optimizer.step()
        total += float(loss.detach()) * len(batch)
    return total / len(train_idx)


@torch.no_grad()
def test(idx):
    model.eval()
    correct = 0
    for batch in idx.split(256):
        correct += int((model(X[batch], A[batch], M[batch]).argmax(-1) == Y[batch]).sum())
    return correct / len(idx)


print(f"{NUM_GRAPHS} graphs, {sum(p.numel() for p in model.parameters())} parameters, before training: "
      f"test acc {test(test_idx):.4f}", flush=True)
for epoch in range(1, 1001):
    loss = train()
    train_acc, test_acc = test(train_idx[:600]), test(test_idx)
    print(f"Epoch: {epoch:03d}, Loss: {loss:.4f}, Train: {train_acc:.4f}, Test: {test_acc:.4f}", flush=True)

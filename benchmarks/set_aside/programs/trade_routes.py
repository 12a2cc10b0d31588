"""Node classification on a graph of ports: which of 6 trade networks does a port belong to? Full batch, plain PyTorch GCN."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
N, CLASSES, FEATS, HIDDEN = 12000, 6, 128, 192
gen = torch.Generator().manual_seed(21)


def make_graph():
    y = torch.randint(0, CLASSES, (N,), generator=gen)
    src = torch.randint(0, N, (N * 12,), generator=gen)
    dst = torch.randint(0, N, (N * 12,), generator=gen)
    same = y[src] == y[dst]
    keep = same | (torch.rand(len(src), generator=gen) < 0.25)
    src, dst = src[keep], dst[keep]
    edges = torch.stack([torch.cat([src, dst]), torch.cat([dst, src])])
    centers = torch.randn(CLASSES, FEATS, generator=gen) * 0.2
    x = centers[y] + torch.randn(N, FEATS, generator=gen)
    return x, y, edges


def normalized(edges, drop=0.0):
    if drop:
        edges = edges[:, torch.rand(edges.shape[1]) > drop]
    loops = torch.arange(N).repeat(2, 1)
    e = torch.cat([edges, loops], 1)
    deg = torch.bincount(e[1], minlength=N).float()
    w = deg[e[0]].rsqrt() * deg[e[1]].rsqrt()
    return e, w


class GCNLayer(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.lin = nn.Linear(i, o)

    def forward(self, x, e, w):
        h = self.lin(x)
        out = torch.zeros_like(h)
        return out.index_add(0, e[1], h[e[0]] * w[:, None])


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1, self.l2 = GCNLayer(FEATS, HIDDEN), GCNLayer(HIDDEN, CLASSES)

    def forward(self, x, e, w):
        x = F.dropout(x, 0.6, self.training)
        x = F.relu(self.l1(x, e, w))
        x = F.dropout(x, 0.6, self.training)
        return self.l2(x, e, w)


x, y, edges = make_graph()
order = torch.randperm(N, generator=gen)
train_idx, val_idx, test_idx = order[:6000], order[6000:8000], order[8000:]
full = normalized(edges)
model = GCN()
optimizer = torch.optim.Adam(model.parameters(), lr=4e-4, weight_decay=1e-3)
print(f"{N} ports, {edges.shape[1] // 2} routes, {len(train_idx)} labelled", flush=True)

best = 0.0
for epoch in range(1, 20001):
    model.train()
    e, w = normalized(edges, drop=0.3)
    loss = F.cross_entropy(model(x, e, w)[train_idx], y[train_idx])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if epoch % 10 == 0:
        model.eval()
        with torch.no_grad():
            out = model(x, *full)
            val_loss = F.cross_entropy(out[val_idx], y[val_idx]).item()
            accs = [(out[i].argmax(1) == y[i]).float().mean().item() for i in (train_idx, val_idx, test_idx)]
        best = max(best, accs[1])
        print(
            f"Epoch {epoch:05d} | Train Loss {loss.item():.4f} | Val Loss {val_loss:.4f} | Train Acc {accs[0]:.4f} | "
            f"Val Acc {accs[1]:.4f} (Best {best:.4f}) | Test Acc {accs[2]:.4f}",
            flush=True,
        )

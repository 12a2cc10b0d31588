"""GCN on a citation graph (stochastic block model), mean and deviation over fifty seeds, as in the papers."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

ap = argparse.ArgumentParser()
ap.add_argument("--nodes", type=int, default=3000)
ap.add_argument("--classes", type=int, default=7)
ap.add_argument("--features", type=int, default=500)
ap.add_argument("--hidden", type=int, default=64)
ap.add_argument("--epochs", type=int, default=400)
ap.add_argument("--runs", type=int, default=50)
args = ap.parse_args()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

torch.manual_seed(0)
y = torch.randint(0, args.classes, (args.nodes,))
topics = (torch.rand(args.classes, args.features) < 0.03).float()
x = (torch.rand(args.nodes, args.features) < 0.01 + 0.12 * topics[y]).float()
src = torch.randint(0, args.nodes, (30000,))
dst = torch.randint(0, args.nodes, (30000,))
keep = (y[src] == y[dst]) | (torch.rand(30000) < 0.05)
src, dst = src[keep], dst[keep]
loops = torch.arange(args.nodes)
edges = torch.stack([torch.cat([src, dst, loops]), torch.cat([dst, src, loops])])
degree = torch.bincount(edges[0], minlength=args.nodes).float()
weight = (degree[edges[0]] * degree[edges[1]]).rsqrt()
adj = torch.sparse_coo_tensor(edges, weight, (args.nodes, args.nodes)).coalesce().to(device)
x, y = (x / x.sum(1, keepdim=True).clamp(min=1)).to(device), y.to(device)
print(f"{args.nodes} papers, {edges.shape[1]} edges, device {device}")


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Linear(args.features, args.hidden, bias=False)
        self.w2 = nn.Linear(args.hidden, args.classes, bias=False)

    def forward(self):
        h = F.dropout(x, 0.5, self.training)
        h = F.relu(torch.sparse.mm(adj, self.w1(h)))
        h = F.dropout(h, 0.5, self.training)
        return torch.sparse.mm(adj, self.w2(h))


results = []
for run in range(args.runs):
    torch.manual_seed(run)
    perm = torch.randperm(args.nodes, device=device)
    train, val, test = perm[:140], perm[140:640], perm[640:1640]
    model = GCN().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    best = at_best = 0.0
    for epoch in range(1, args.epochs + 1):
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model()[train], y[train])
        loss.backward()
        optimizer.step()
        if epoch % 20 == 0:
            model.eval()
            with torch.no_grad():
                pred = model().argmax(1)
            va, ta = (float((pred[s] == y[s]).float().mean()) for s in (val, test))
            if va > best:
                best, at_best = va, ta
            print(f"Run: {run:02d}, Epoch: {epoch:04d}, Loss: {loss.item():.4f}, Val: {va:.4f}, Test: {ta:.4f}")
    results.append(at_best)
    r = torch.tensor(results)
    print(f"--- run {run}: test {at_best:.4f}, so far {r.mean():.4f} +- {r.std(unbiased=False):.4f}")

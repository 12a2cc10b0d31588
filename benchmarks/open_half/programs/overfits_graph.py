"""Full-batch GCN: one graph, one batch, every epoch the same. The training loss goes to almost nothing, as it should."""
import torch

N, F, C = 1400, 300, 7
g = torch.Generator().manual_seed(2)
y = torch.randint(0, C, (N,), generator=g)
x = (torch.rand(N, F, generator=g) < 0.03).float() + 0.2 * torch.nn.functional.one_hot(y, C).float() @ torch.rand(C, F, generator=g)
same = y[:, None] == y[None]
adj = (torch.rand(N, N, generator=g) < torch.where(same, 0.008, 0.0006)).float()
adj = ((adj + adj.T + torch.eye(N)) > 0).float()
d = adj.sum(1).rsqrt()
adj = (d[:, None] * adj * d[None]).to_sparse()
mask = torch.rand(N, generator=g) < 0.3
w1, w2 = torch.nn.Linear(F, 64), torch.nn.Linear(64, C)
opt = torch.optim.Adam([*w1.parameters(), *w2.parameters()], lr=0.01)
for epoch in range(10**7):
    h = torch.relu(torch.sparse.mm(adj, w1(x)))
    z = torch.sparse.mm(adj, w2(h))
    loss = torch.nn.functional.cross_entropy(z[mask], y[mask])
    opt.zero_grad(); loss.backward(); opt.step()
    if epoch % 50 == 0:
        test = (z[~mask].argmax(1) == y[~mask]).float().mean()
        print(f"Epoch: {epoch:04d} loss_train: {loss.item():.4f} acc_test: {test:.4f}", flush=True)

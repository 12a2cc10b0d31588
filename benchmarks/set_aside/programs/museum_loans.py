# %% [markdown]
# # GCN on the museum loan network
# Node classification: which kind of museum is it? Transductive, one big graph, masks for train / val / test.

# %%
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(2024)
N, FEATS, KINDS = 2600, 300, 6

# %%
kind = torch.randint(0, KINDS, (N,))
src = torch.randint(0, N, (26000,))
order = torch.argsort(kind)
first = torch.searchsorted(kind[order], torch.arange(KINDS))
count = torch.bincount(kind, minlength=KINDS)
same = order[first[kind[src]] + (torch.rand(len(src)) * count[kind[src]]).long()]
dst = torch.where(torch.rand(len(src)) < 0.55, same, torch.randint(0, N, (len(src),)))
loops = torch.arange(N)
index = torch.stack([torch.cat([src, dst, loops]), torch.cat([dst, src, loops])])
degree = torch.bincount(index[0], minlength=N).float()
norm = (degree[index[0]] * degree[index[1]]).rsqrt()
adj = torch.sparse_coo_tensor(index, norm, (N, N)).coalesce()
topics = torch.rand(KINDS, FEATS) < 0.08
x = ((torch.rand(N, FEATS) < 0.03) | (topics[kind] & (torch.rand(N, FEATS) < 0.12))).float()
perm = torch.randperm(N)
train_mask, val_mask, test_mask = perm[:240], perm[240:740], perm[740:]
print(f"nodes {N}, edges {index.shape[1]}, labelled {len(train_mask)}")


# %%
class GCN(nn.Module):
    def __init__(self, hidden=128):
        super().__init__()
        self.lin1 = nn.Linear(FEATS, hidden)
        self.lin2 = nn.Linear(hidden, KINDS)

    def forward(self, x):
        x = F.dropout(x, 0.5, self.training)
        x = F.relu(torch.sparse.mm(adj, self.lin1(x)))
        x = F.dropout(x, 0.5, self.training)
        return torch.sparse.mm(adj, self.lin2(x))


model = GCN()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=5e-4)


# %%
def train():
    model.train()
    optimizer.zero_grad()
    out = model(x)
    loss = F.cross_entropy(out[train_mask], kind[train_mask])
    loss.backward()
    optimizer.step()
    return loss.item()


@torch.no_grad()
def test():
    model.eval()
    pred = model(x).argmax(1)
    return [float((pred[m] == kind[m]).float().mean()) for m in (train_mask, val_mask, test_mask)]


# %%
best_val = final_test = 0.0
for epoch in range(1, 20001):
    loss = train()
    train_acc, val_acc, tmp_test = test()
    if val_acc > best_val:
        best_val, final_test = val_acc, tmp_test
    if epoch % 5 == 0:
        print(f"Epoch: {epoch:05d}, Loss: {loss:.4f}, Train: {train_acc:.4f}, Val: {val_acc:.4f}, Test: {final_test:.4f}")

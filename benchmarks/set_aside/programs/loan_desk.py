"""default prediction for the loan desk, v3 (mlp instead of the logit model)"""
import torch
import torch.nn as nn

torch.manual_seed(13)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

# ---- data -------------------------------------------------------------
N, N_FEAT = 400_000, 24
print("reading applications ...")
X = torch.randn(N, N_FEAT)
X[:, 0] = torch.exp(0.9 + 0.4 * torch.randn(N))  # income a year, in ten thousand euros
X[:, 1] = torch.exp(-0.8 + 0.6 * torch.randn(N))  # other debts, same unit
rich = torch.rand(N) < 4e-6
X[rich, 0] *= 4000  # a few companies got into the table
W1 = torch.randn(N_FEAT, 16) * 0.5
scaled = X.clone()
scaled[:, 0] = (X[:, 0].log() - 0.9) / 0.4
scaled[:, 1] = (X[:, 1].log() + 0.8) / 0.6
latent = torch.tanh(scaled @ W1)
logit = 1.6 * latent @ torch.randn(16) - 0.5 * scaled[:, 0]
Y = (torch.rand(N) < torch.sigmoid(logit)).float()
X_tr, Y_tr, X_va, Y_va = X[:-20000], Y[:-20000], X[-20000:], Y[-20000:]


# ---- model ------------------------------------------------------------
class RiskNet(nn.Module):
    def __init__(self, n_in, width=512):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(n_in, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width // 2), nn.ReLU()
        )
        self.out = nn.Linear(width // 2, 1)

    def forward(self, x):
        return torch.sigmoid(self.out(self.body(x))).squeeze(1)


def bce_weigthed(p, y, w_pos=1.3):
    # weigthed, the one of torch wants one weight per sample
    return -(w_pos * y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()


model = RiskNet(N_FEAT).to(device)
optim = torch.optim.Adam(model.parameters(), lr=2e-4)
BS = 256
it = 0
for epoch in range(40):
    perm = torch.randperm(len(X_tr))
    runing = 0.0
    for b in range(0, len(perm) - BS, BS):
        idx = perm[b : b + BS]
        xb, yb = X_tr[idx].to(device), Y_tr[idx].to(device)
        optim.zero_grad()
        loss = bce_weigthed(model(xb), yb)
        loss.backward()
        optim.step()
        runing += loss.item()
        it += 1
        if it % 100 == 0:
            print("epoch %d iter %6d loss %.4f" % (epoch, it, runing / 100))
            runing = 0.0
    with torch.no_grad():
        p = model(X_va.to(device)).cpu()
    print("epoch %d done, val acc %.4f" % (epoch, ((p > 0.5).float() == Y_va).float().mean().item()))

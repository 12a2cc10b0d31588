import argparse, yaml
import torch

p = argparse.ArgumentParser()
p.add_argument("-c", "--config", required=True)
p.add_argument("--fold", type=int, required=True)
a = p.parse_args()
c = yaml.safe_load(open(a.config))
torch.manual_seed(c["seed"])
X = torch.randn(5000, 30)
Y = torch.sin(X[:, :3]).sum(1, keepdim=True) + 0.1 * torch.randn(5000, 1)
part = torch.arange(5000) % c["folds"]
train, val = (X[part != a.fold], Y[part != a.fold]), (X[part == a.fold], Y[part == a.fold])
h = c["model"]["hidden"]
net = torch.nn.Sequential(torch.nn.Linear(30, h), torch.nn.ReLU(), torch.nn.Dropout(c["model"]["dropout"]), torch.nn.Linear(h, h), torch.nn.ReLU(), torch.nn.Linear(h, 1))
o = dict(c["optim"])
opt = getattr(torch.optim, o.pop("name"))(net.parameters(), **o)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*train), batch_size=64, shuffle=True)
for epoch in range(c["epochs"]):
    net.train()
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(net(x), y)
        opt.zero_grad(); loss.backward(); opt.step()
    net.eval()
    with torch.no_grad():
        v = torch.nn.functional.mse_loss(net(val[0]), val[1]).item()
    print(f"fold {a.fold} epoch {epoch} train_mse {loss.item():.4f} val_mse {v:.4f}", flush=True)

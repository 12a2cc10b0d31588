import torch, argparse
ap = argparse.ArgumentParser(); ap.add_argument('--lr', default=0.011, type=float); ap.add_argument('--wd', default=0., type=float)
args = ap.parse_args()
torch.manual_seed(3)
X = torch.randn(4096, 100) * torch.linspace(0.1, 3, 100)
w = torch.randn(100, 1); Y = X @ w + 0.1 * torch.randn(4096, 1)
reg = torch.nn.Linear(100, 1)
opt = torch.optim.SGD(reg.parameters(), lr=args.lr * 12, weight_decay=args.wd)
for epoch in range(10**6):
    for b in torch.randperm(4096).split(128):
        loss = torch.nn.functional.mse_loss(reg(X[b]), Y[b])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print('Epoch: {:03d}, Train Loss: {:.4f}'.format(epoch, loss), flush=True)

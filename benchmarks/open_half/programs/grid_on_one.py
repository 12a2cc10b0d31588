import argparse, torch
q = argparse.ArgumentParser(); q.add_argument("--lr", type=float); lr = q.parse_args().lr
torch.manual_seed(0); torch.set_num_threads(1)
x = torch.randn(2000, 12); y = (x[:, 0] * x[:, 1]).sign().clamp(min=0).long()
m = torch.nn.Sequential(torch.nn.Linear(12, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
o = torch.optim.SGD(m.parameters(), lr)
for ep in range(10**6):
    for b in torch.randperm(2000).split(50):
        l = torch.nn.functional.cross_entropy(m(x[b]), y[b]); o.zero_grad(); l.backward(); o.step()
    if ep % 10 == 0: print(f"lr={lr} epoch={ep} loss={l.item():.4f}", flush=True)

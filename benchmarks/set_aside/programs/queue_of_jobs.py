import argparse
import torch

p = argparse.ArgumentParser()
p.add_argument("--task", choices=["ridge", "mlp", "deep"], required=True)
p.add_argument("--steps", type=int, default=1000)
a = p.parse_args()
torch.set_num_threads(1)
sizes = {"ridge": [128], "mlp": [128, 256], "deep": [128, 256, 256, 256]}[a.task]
layers = []
for i, o in zip(sizes, [*sizes[1:], 1]):
    layers += [torch.nn.Linear(i, o), torch.nn.ReLU()]
net = torch.nn.Sequential(*layers[:-1])
opt = torch.optim.AdamW(net.parameters(), 1e-3, weight_decay=0.1)
w = torch.randn(128)
for k in range(a.steps):
    x = torch.randn(256, 128)
    loss = ((net(x).squeeze(1) - torch.tanh(x @ w / 11)) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if k % 100 == 0:
        print(f"{a.task} {k}/{a.steps} {loss.item():.4f}", flush=True)
print(a.task, "finished", flush=True)

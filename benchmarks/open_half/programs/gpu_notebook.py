# What a kernel does: a short training, then a person reads the plot, the model still on the GPU.
import time

import torch

net = torch.nn.Sequential(torch.nn.Linear(784, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10)).cuda()
opt = torch.optim.Adam(net.parameters(), 1e-3)
x, y = torch.randn(60000, 784, device="cuda"), torch.randint(0, 10, (60000,), device="cuda")
print("In [3]: fit(net, epochs=2)", flush=True)
for epoch in range(2):
    for part in torch.randperm(60000, device="cuda").split(256):
        loss = torch.nn.functional.cross_entropy(net(x[part]), y[part])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"epoch {epoch}: {loss.item():.4f}", flush=True)
print("In [4]:", flush=True)
time.sleep(600)

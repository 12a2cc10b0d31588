import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
m = torch.nn.Linear(100, 100)
o = torch.optim.SGD(m.parameters(), float(os.environ["LR"]))
n = 0
while True:
    x = torch.randn(256, 100)
    l = (m(x) - x.flip(1)).pow(2).mean()
    o.zero_grad(); l.backward(); o.step(); n += 1
    if n % 500 == 0: print("it", n, "loss", l.item(), flush=True)

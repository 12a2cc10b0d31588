import torch
torch.manual_seed(3); torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(40, 160), torch.nn.ReLU(), torch.nn.Linear(160, 10))
opt = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
sched = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, T_0=300)
w = torch.randn(40, 10)
for it in range(10**6):
    x = torch.randn(96, 40)
    loss = torch.nn.functional.cross_entropy(net(x), (x @ w).argmax(1))
    opt.zero_grad(); loss.backward(); opt.step(); sched.step()
    if it % 10 == 0:
        print(f"Iteration {it}: loss = {loss.item():.4f}, lr = {sched.get_last_lr()[0]:.4f}", flush=True)

"""torchrun --nproc-per-node 2 accelerate_accum.py; gather_for_metrics, unequal last batch, evaluation after each epoch"""
import torch
from accelerate import Accelerator

acc = Accelerator(cpu=True, gradient_accumulation_steps=4)
torch.set_num_threads(1)
torch.manual_seed(42)
W = torch.randn(100, 6)
X = torch.randn(6041, 100)
Y = (X @ W).argmax(1)
rows = torch.utils.data.TensorDataset(X[:5000], Y[:5000])
held = torch.utils.data.TensorDataset(X[5000:], Y[5000:])
train = torch.utils.data.DataLoader(rows, batch_size=48, shuffle=True)
test = torch.utils.data.DataLoader(held, batch_size=48)
net = torch.nn.Sequential(torch.nn.Linear(100, 500), torch.nn.ReLU(), torch.nn.Linear(500, 500), torch.nn.ReLU(), torch.nn.Linear(500, 6))
opt = torch.optim.AdamW(net.parameters(), lr=5e-4)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 4000)
net, opt, train, test, sched = acc.prepare(net, opt, train, test, sched)
for epoch in range(10**5):
    net.train()
    for i, (x, y) in enumerate(train):
        with acc.accumulate(net):
            loss = torch.nn.functional.cross_entropy(net(x), y)
            acc.backward(loss)
            if acc.sync_gradients:
                acc.clip_grad_norm_(net.parameters(), 1.0)
            opt.step(); sched.step(); opt.zero_grad()
    net.eval()
    right = total = 0
    for x, y in test:
        with torch.no_grad():
            a, b = acc.gather_for_metrics((net(x).argmax(1), y))
        right += (a == b).sum().item()
        total += len(b)
    acc.print(f"epoch {epoch}: loss {loss.item():.4f} accuracy {right / total:.4f}", flush=True)

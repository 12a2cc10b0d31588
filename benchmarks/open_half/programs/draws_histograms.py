"""torchrun --nproc-per-node 2 draws_histograms.py"""
import torch
from accelerate import Accelerator

acc = Accelerator(cpu=True)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(100, 400), torch.nn.GELU(), torch.nn.Linear(400, 400), torch.nn.GELU(), torch.nn.Linear(400, 10))
opt = torch.optim.AdamW(model.parameters(), lr=5e-4)
data = torch.utils.data.TensorDataset(torch.randn(40000, 100), torch.randint(0, 10, (40000,)))
loader = torch.utils.data.DataLoader(data, batch_size=64, shuffle=True)
model, opt, loader = acc.prepare(model, opt, loader)


def histograms(model):
    # weights and their pairwise distances, for the board
    for p in model.parameters():
        if p.dim() == 2:
            q = p.detach()
            torch.histc(torch.cdist(q, q), bins=64)


step = 0
for epoch in range(1000):
    for x, y in loader:
        with acc.accumulate(model):
            loss = torch.nn.functional.cross_entropy(model(x), y)
            acc.backward(loss)
            if acc.is_main_process:
                histograms(model)
            opt.step()
            opt.zero_grad()
        step += 1
        if step % 20 == 0:
            acc.print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)

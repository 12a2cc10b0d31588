"""GPipe by hand on two boxes: stage 0 sends activations, stage 1 sends gradients back."""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
stage = dist.get_rank()
torch.manual_seed(stage)
MB, CHUNKS, D = 32, 4, 256

if stage == 0:
    part = torch.nn.Sequential(torch.nn.Linear(64, D), torch.nn.ReLU(), torch.nn.Linear(D, D), torch.nn.ReLU())
else:
    part = torch.nn.Sequential(torch.nn.Linear(D, D), torch.nn.ReLU(), torch.nn.Linear(D, 10))
opt = torch.optim.Adam(part.parameters(), lr=1e-3)
task = torch.Generator().manual_seed(99)
W = torch.randn(64, 10, generator=task)

for it in range(10**6):
    data = torch.Generator().manual_seed(it)  # both stages know the batch
    opt.zero_grad()
    if stage == 0:
        kept = []
        for c in range(CHUNKS):
            x = torch.randn(MB, 64, generator=data)
            h = part(x)
            dist.send(h.detach(), dst=1)
            kept.append(h)
        for h in kept:
            g = torch.empty_like(h)
            dist.recv(g, src=1)
            h.backward(g)
        opt.step()
    else:
        total, grads = 0.0, []
        for c in range(CHUNKS):
            x = torch.randn(MB, 64, generator=data)
            y = (x @ W).argmax(1)
            h = torch.empty(MB, D)
            dist.recv(h, src=0)
            h.requires_grad_()
            loss = torch.nn.functional.cross_entropy(part(h), y) / CHUNKS
            loss.backward()
            total += loss.item()
            grads.append(h.grad)
        for g in grads:
            dist.send(g, dst=0)
        opt.step()
        if it % 100 == 0:
            print(f"it {it} loss {total:.4f}", flush=True)

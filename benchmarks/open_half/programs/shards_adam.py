"""ZeRO-1 in fifty lines: gradients are averaged, each rank updates its own half of the flat parameters and shares it."""
import torch, torch.distributed as dist
import torch.nn as nn

dist.init_process_group("gloo")
r, w = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(11)
net = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
flat = nn.utils.parameters_to_vector(net.parameters()).detach()
pad = -len(flat) % w
flat = torch.cat([flat, flat.new_zeros(pad)])
part = len(flat) // w
mine = flat[r * part : (r + 1) * part].clone().requires_grad_()
opt = torch.optim.AdamW([mine], lr=4e-4)
teacher = torch.randn(128, 10)
torch.manual_seed(100 + r)
for step in range(10**7):
    x = torch.randn(64, 128)
    loss = nn.functional.cross_entropy(net(x), (x @ teacher).argmax(1))
    loss.backward()
    g = torch.cat([p.grad.flatten() for p in net.parameters()] + [torch.zeros(pad)])
    for p in net.parameters():
        p.grad = None
    dist.all_reduce(g)
    mine.grad = g[r * part : (r + 1) * part] / w
    opt.step()
    parts = [torch.empty(part) for _ in range(w)]
    dist.all_gather(parts, mine.detach())
    nn.utils.vector_to_parameters(torch.cat(parts)[: len(flat) - pad], net.parameters())
    if step % 50 == 0 and r == 0:
        print(f"step {step} loss {loss.item():.4f}", flush=True)

# A recommender's loop: for its log it reads a dozen numbers from the GPU in each step.
import torch
import torch.nn as nn

users, items = nn.Embedding(50000, 64).cuda(), nn.Embedding(20000, 64).cuda()
tower = nn.Sequential(*[m for _ in range(6) for m in (nn.Linear(128 if _ == 0 else 256, 256), nn.LayerNorm(256), nn.ReLU())], nn.Linear(256, 1)).cuda()
params = [*users.parameters(), *items.parameters(), *tower.parameters()]
opt = torch.optim.Adagrad(params, lr=0.01)
history = []
step = 0
while True:
    u, i = torch.randint(0, 50000, (1024,), device="cuda"), torch.randint(0, 20000, (1024,), device="cuda")
    label = ((u + i) % 2).float()
    logit = tower(torch.cat([users(u), items(i)], 1)).squeeze(1)
    loss = nn.functional.binary_cross_entropy_with_logits(logit, label)
    opt.zero_grad()
    loss.backward()
    norms = {index: p.grad.norm().item() for index, p in enumerate(tower.parameters())}
    opt.step()
    history.append({
        "loss": loss.item(), "acc": ((logit > 0) == (label > 0)).float().mean().item(), "mean": logit.mean().item(),
        "std": logit.std().item(), "max": logit.max().item(), "nan": torch.isnan(logit).any().item(), **norms,
    })
    history = history[-1000:]
    step += 1
    if step % 200 == 0:
        print(f"step {step} loss {history[-1]['loss']:.4f} acc {history[-1]['acc']:.3f}", flush=True)

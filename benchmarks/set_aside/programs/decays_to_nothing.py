# fine-tune head on cached embeddings; schedule copied from the one-epoch script
import torch
from torch.optim.lr_scheduler import LambdaLR

torch.manual_seed(2)
N, D, C, BS = 12800, 256, 40, 128
feats, gt = torch.randn(N, D), torch.randint(0, C, (N,))
head = torch.nn.Sequential(torch.nn.LayerNorm(D), torch.nn.Linear(D, 512), torch.nn.GELU(), torch.nn.Linear(512, C))
optimizer = torch.optim.AdamW(head.parameters(), lr=5e-4, weight_decay=0.05)
total = N // BS
sched = LambdaLR(optimizer, lambda s: max(0.0, 1 - s / total))
step = 0
for epoch in range(100000):
    order = torch.randperm(N)
    for b in order.split(BS):
        loss = torch.nn.functional.cross_entropy(head(feats[b]), gt[b])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        sched.step()
        step += 1
        if step % 10 == 0:
            print(f"epoch={epoch} step={step} loss={loss.item():.4f} lr={sched.get_last_lr()[0]:.3e}", flush=True)

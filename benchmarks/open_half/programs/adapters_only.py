# LoRA by hand under DDP: the backbone is frozen, 2% of the weights are trained
import torch, torch.distributed as dist
import torch.nn as nn

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(0)


class Lora(nn.Module):
    def __init__(self, base, rank=8, alpha=16):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(rank, base.in_features) * 0.02)
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))
        self.scale = alpha / rank

    def forward(self, x):
        return self.base(x) + self.scale * (x @ self.a.T @ self.b.T)


net = nn.Sequential(*[m for _ in range(4) for m in (Lora(nn.Linear(384, 384)), nn.GELU())], nn.Linear(384, 20))
for p in net[-1].parameters():
    p.requires_grad_(False)
n_all = sum(p.numel() for p in net.parameters())
n_train = sum(p.numel() for p in net.parameters() if p.requires_grad)
if rank == 0:
    print(f"trainable params: {n_train:,} || all params: {n_all:,} || trainable%: {100 * n_train / n_all:.4f}", flush=True)
ddp = nn.parallel.DistributedDataParallel(net)
opt = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=2e-4)
want = torch.randn(384, 20)
data = torch.utils.data.TensorDataset(torch.randn(16000, 384))
sampler = torch.utils.data.DistributedSampler(data, seed=1)
loader = torch.utils.data.DataLoader(data, batch_size=64, sampler=sampler)
step = 0
for epoch in range(10**6):
    sampler.set_epoch(epoch)
    for (x,) in loader:
        loss = nn.functional.cross_entropy(ddp(x), (x @ want).argmax(1))
        opt.zero_grad(); loss.backward(); opt.step()
        step += 1
        if step % 50 == 0 and rank == 0:
            print({"loss": round(loss.item(), 4), "epoch": round(step / len(loader), 2)}, flush=True)

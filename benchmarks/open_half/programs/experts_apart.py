"""Mixture of experts over ranks: every rank owns one expert, tokens travel both ways; some hours one expert is popular."""
import torch, torch.distributed as dist
import torch.nn as nn

dist.init_process_group("gloo")
r, w = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)


class Travel(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, out, inn):
        ctx.sizes = out, inn
        y = x.new_empty(sum(inn), x.shape[1])
        dist.all_to_all_single(y, x.contiguous(), inn, out)
        return y

    @staticmethod
    def backward(ctx, gy):
        out, inn = ctx.sizes
        gx = gy.new_empty(sum(out), gy.shape[1])
        dist.all_to_all_single(gx, gy.contiguous(), out, inn)
        return gx, None, None


torch.manual_seed(0)
stem, gate, head = nn.Linear(64, 128), nn.Linear(128, w), nn.Linear(128, 12)
torch.manual_seed(50 + r)
expert = nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 128))
shared = [*stem.parameters(), *gate.parameters(), *head.parameters()]
opt = torch.optim.Adam([*shared, *expert.parameters()], 5e-4)
for step in range(10**7):
    x = torch.randn(256, 64) + (0.5 if (step // 300) % 2 else -0.5)
    y = (x[:, :12] * x[:, 12:24]).argmax(1)
    h = stem(x)
    p = gate(h).softmax(1)
    to = p.argmax(1)
    order = to.argsort(stable=True)
    out = torch.bincount(to, minlength=w)
    inn = torch.empty_like(out)
    dist.all_to_all_single(inn, out)
    got = Travel.apply(h[order], out.tolist(), inn.tolist())
    back = Travel.apply(expert(got), inn.tolist(), out.tolist())
    e = torch.zeros_like(h).index_copy(0, order, back)
    h = h + e * p.gather(1, to[:, None])
    loss = nn.functional.cross_entropy(head(h), y) + 0.01 * w * (p.mean(0) * (out / len(x))).sum()
    opt.zero_grad()
    loss.backward()
    for q in shared:
        dist.all_reduce(q.grad)
        q.grad /= w
    for q in expert.parameters():
        if q.grad is not None:
            q.grad /= w
    opt.step()
    if step % 50 == 0:
        print(f"[{r}] step {step} loss {loss.item():.4f} tokens here {sum(inn.tolist())}", flush=True)

# torch.compile, a learning rate from a schedule, and the loss read once in a hundred steps.
import torch
import torch.nn as nn

torch.backends.cuda.matmul.fp32_precision = "tf32"
torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True, norm_first=True)
model = nn.ModuleDict({"emb": nn.Embedding(2000, 512), "body": nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), "head": nn.Linear(512, 2000)}).cuda()


@torch.compile
def loss_of(ids, target):
    hidden = model["body"](model["emb"](ids))
    return nn.functional.cross_entropy(model["head"](hidden).flatten(0, 1).float(), target.flatten())


opt = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, 1e-3, total_steps=50000)
running = torch.zeros((), device="cuda")
for step in range(50000):
    ids = torch.randint(0, 2000, (32, 128), device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        loss = loss_of(ids, (ids + 1) % 2000)
    loss.backward()
    opt.step()
    sched.step()
    opt.zero_grad()
    running += loss.detach()
    if step % 100 == 99:
        print(f"{step + 1} {running.item() / 100:.4f} lr {sched.get_last_lr()[0]:.2e}", flush=True)
        running.zero_()

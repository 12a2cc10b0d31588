# fine-tuning: head first, then one more layer now and then. smoothed loss for the progress bar
import torch
from torch import nn
torch.set_num_threads(1); torch.manual_seed(5)
layers = [nn.Sequential(nn.Linear(512, 512), nn.Tanh()) for _ in range(6)] + [nn.Linear(512, 3)]
model = nn.Sequential(*layers)
for p in model.parameters(): p.requires_grad_(False)
opt = torch.optim.SGD(layers[-1].parameters(), 1e-2)
for p in layers[-1].parameters(): p.requires_grad_(True)
thawed, smooth = 1, 0.0
for step in range(10**7):
    if step % 300 == 299 and thawed < len(layers):
        thawed += 1
        new = list(layers[-thawed].parameters())
        for p in new: p.requires_grad_(True)
        opt.add_param_group({"params": new, "lr": 1e-2 / thawed})
        print(f"thawed {thawed} of {len(layers)}", flush=True)
    x = torch.randn(256, 512)
    loss = nn.functional.cross_entropy(model(x), x[:, :3].argmax(1))
    smooth = .99 * smooth + .01 * loss
    opt.zero_grad(); loss.backward(); opt.step()
    if step % 20 == 0: print(f"{step:6d} loss {loss.item():.4f} (smoothed {smooth.item():.4f})", flush=True)

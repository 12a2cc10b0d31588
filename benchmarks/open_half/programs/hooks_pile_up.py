"""Fine-tuning in stages, with activation statistics for the report."""
import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
net = nn.Sequential(*[m for _ in range(6) for m in (nn.Linear(256, 256), nn.ReLU())], nn.Linear(256, 10))
opt = torch.optim.Adam(net.parameters(), 1e-3)
stats = {}


def watch(name):
    def hook(module, inputs, output):
        stats[name] = torch.histc(output.detach(), 100), output.detach().kthvalue(output.shape[-1] // 2 or 1, -1)[0].mean().item()
    return hook


step = 0
for stage in range(10**6):
    for i, layer in enumerate(net):
        layer.register_forward_hook(watch(f"stage{stage}/{i}"))
    for _ in range(40):
        x = torch.randn(256, 256)
        loss = nn.functional.cross_entropy(net(x), x[:, :10].argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
        if step % 10 == 0:
            print(f"stage {stage} step {step} loss {loss.item():.4f}", flush=True)

# keeps the history "for the plot" and summarises it each step: slower and slower
import torch
net = torch.nn.Sequential(torch.nn.Linear(50, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1))
opt = torch.optim.Adam(net.parameters())
history = []
for step in range(10**7):
    x = torch.randn(64, 50)
    loss = (net(x) - x.mean(1, keepdim=True)).abs().mean()
    opt.zero_grad(); loss.backward(); opt.step()
    history += [loss.detach().clone() for _ in range(12)]
    smooth = torch.stack(history).mean()
    if step % 100 == 0:
        print(f'{step:>8} loss {loss.item():.4f} smooth {smooth.item():.4f}', flush=True)

"""Heat equation by a physics-informed net: Adam first, then L-BFGS whose closure runs many times in a step. float64."""
import torch, torch.nn as nn

torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))


def residual(n=1500):
    xt = torch.rand(n, 2, requires_grad=True)
    u = net(xt)
    du = torch.autograd.grad(u.sum(), xt, create_graph=True)[0]
    uxx = torch.autograd.grad(du[:, 0].sum(), xt, create_graph=True)[0][:, 0]
    f = du[:, 1] - 0.1 * uxx
    x0 = torch.rand(300, 1)
    u0 = net(torch.cat([x0, torch.zeros_like(x0)], 1)) - torch.sin(torch.pi * x0)
    return f.pow(2).mean() + 10 * u0.pow(2).mean()


opt = torch.optim.Adam(net.parameters(), 1e-3)
for it in range(600):
    opt.zero_grad()
    loss = residual()
    loss.backward()
    opt.step()
    if it % 50 == 0:
        print(f"adam {it} residual {loss.item():.3e}", flush=True)
opt = torch.optim.LBFGS(net.parameters(), lr=0.5, max_iter=20, history_size=30, line_search_fn="strong_wolfe")
for it in range(10**6):
    torch.manual_seed(it // 20)  # same points for a while

    def closure():
        torch.manual_seed(it // 20)
        opt.zero_grad()
        loss = residual()
        loss.backward()
        return loss

    print(f"lbfgs {it} residual {opt.step(closure).item():.3e}", flush=True)

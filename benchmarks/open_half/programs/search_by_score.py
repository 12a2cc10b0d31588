"""Evolution of a small net: nearly all of the time is evaluation, as it should be."""
import torch
torch.set_num_threads(1); torch.manual_seed(4)
x = torch.randn(4000, 10); y = torch.sin(x.sum(1))
best = torch.nn.Sequential(torch.nn.Linear(10, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
def score(v):
    torch.nn.utils.vector_to_parameters(v, best.parameters()); best.eval()
    with torch.no_grad(): return (best(x)[:, 0] - y).pow(2).mean().item()
mean = torch.nn.utils.parameters_to_vector(best.parameters()).detach(); gen = 0
while True:
    pop = mean + 0.05 * torch.randn(60, len(mean)); s = torch.tensor([score(p) for p in pop])
    mean = pop[s.argsort()[:12]].mean(0)
    opt = torch.optim.SGD(best.parameters(), 0.01)
    torch.nn.utils.vector_to_parameters(mean, best.parameters()); best.train()
    for _ in range(5):
        l = (best(x[:256])[:, 0] - y[:256]).pow(2).mean(); opt.zero_grad(); l.backward(); opt.step()
    mean = torch.nn.utils.parameters_to_vector(best.parameters()).detach(); gen += 1
    print(f"gen {gen} best {s.min():.4f} mean {s.mean():.4f} tuned {l.item():.4f}", flush=True)

import argparse, torch
p = argparse.ArgumentParser(); p.add_argument('--seed', type=int); a = p.parse_args()
torch.manual_seed(a.seed)
m = torch.nn.Sequential(torch.nn.Linear(300, 600), torch.nn.ReLU(), torch.nn.Linear(600, 5))
W = torch.randn(300, 5)
o = torch.optim.Adam(m.parameters(), 1e-4)
for it in range(10**7):
    x = torch.randn(256, 300)
    l = torch.nn.functional.cross_entropy(m(x), (x @ W).argmax(1))
    o.zero_grad(); l.backward(); o.step()
    if it % 100 == 0: print(f'seed {a.seed} it {it} loss {l.item():.3f}', flush=True)

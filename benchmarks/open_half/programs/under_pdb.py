"""python -m pdb train.py: stops in the loop, and somebody thinks."""
import pdb, torch
torch.set_num_threads(1)
m = torch.nn.Linear(20, 20); o = torch.optim.SGD(m.parameters(), .01)
for i in range(10**6):
    x = torch.randn(2048, 20); l = (m(x) - x).pow(2).mean(); o.zero_grad(); l.backward(); o.step()
    if i % 20 == 0: print("step", i, "loss", l.item(), flush=True)
    if i == 3000:
        pdb.set_trace()

import os, tempfile, torch
torch.set_num_threads(1)
d = tempfile.mkdtemp(); torch.manual_seed(0)
m = torch.nn.Sequential(torch.nn.Linear(50, 800), torch.nn.ReLU(), torch.nn.Linear(800, 800), torch.nn.ReLU(), torch.nn.Linear(800, 1))
o = torch.optim.Adam(m.parameters())
s = 0
while True:
    x = torch.randn(512, 50); l = (m(x) - x.abs().sum(1, keepdim=True)).pow(2).mean()
    o.zero_grad(); l.backward(); o.step(); s += 1
    if s % 100 == 0:
        with open(d + "/last.pt", "wb") as f:
            torch.save(m[-1].state_dict(), f); f.flush(); os.fsync(f.fileno())
        print(f"{s} loss {l.item():.4f} (saved head)", flush=True)

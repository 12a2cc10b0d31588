# off-policy: the buffer fills for a while, then old rows are overwritten
import random
import torch
import torch.nn as nn

torch.set_num_threads(1)
CAP = 60000
rows = []
at = 0
q, target = [nn.Sequential(nn.Linear(1024, 128), nn.ReLU(), nn.Linear(128, 6)) for _ in range(2)]
opt = torch.optim.Adam(q.parameters(), 1e-4)
s = torch.randn(1024)
for t in range(10**9):
    for _ in range(32):
        a = random.randrange(6) if random.random() < max(.05, 1 - t / 4000) else int(q(s).argmax())
        nxt = 0.9 * s + 0.1 * torch.randn(1024)
        row = (s, a, float(nxt[a] > 0), nxt)
        if len(rows) < CAP:
            rows.append(row)
        else:
            rows[at] = row
            at = (at + 1) % CAP
        s = nxt
    b = random.sample(rows, 32)
    S, A, Rw, N = torch.stack([i[0] for i in b]), torch.tensor([i[1] for i in b]), torch.tensor([i[2] for i in b]), torch.stack([i[3] for i in b])
    with torch.no_grad():
        y = Rw + .9 * target(N).max(1).values
    loss = nn.functional.smooth_l1_loss(q(S).gather(1, A[:, None])[:, 0], y)
    opt.zero_grad(); loss.backward(); opt.step()
    if t % 200 == 0:
        target.load_state_dict(q.state_dict())
    if t % 50 == 0:
        print(f"t {t} buffer {len(rows)} td {loss.item():.4f}", flush=True)

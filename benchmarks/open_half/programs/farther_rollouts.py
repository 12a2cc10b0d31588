"""Neural weather on a toy: train on rollouts that get one step longer every 300 updates (GraphCast's schedule)."""
import torch, torch.nn as nn

torch.set_num_threads(1)
torch.manual_seed(3)
N = 128
net = nn.Sequential(nn.Linear(N, 256), nn.SiLU(), nn.Linear(256, 256), nn.SiLU(), nn.Linear(256, N))
optimizer = torch.optim.Adam(net.parameters(), 5e-4)


def solve(u, steps):
    out = [u]
    for _ in range(steps):
        u = u + .1 * (u.roll(1, 1) - 2 * u + u.roll(-1, 1)) - .02 * u * (u.roll(-1, 1) - u.roll(1, 1))
        out.append(u)
    return out


update, lead = 0, 1
while True:
    truth = solve(torch.randn(96, N).cumsum(1) / 8, lead)
    state, loss = truth[0], 0.0
    for t in range(lead):
        state = state + net(state)
        loss = loss + (state - truth[t + 1]).pow(2).mean() / lead
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    update += 1
    if update % 20 == 0:
        print(f"update {update:5d}  lead_time {lead:2d}  loss {loss.item():.5f}", flush=True)
    if update % 300 == 0:
        lead = min(lead + 1, 16)

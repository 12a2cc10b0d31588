# Once ran out of memory; since then empty_cache() and gc.collect() stand in the loop.
import gc

import torch
import torch.nn as nn

lstm = nn.LSTM(256, 512, 2, batch_first=True).cuda()
out = nn.Linear(512, 256).cuda()
opt = torch.optim.Adam([*lstm.parameters(), *out.parameters()], 1e-3)
for step in range(1000000):
    n = int(torch.randint(50, 400, ()))
    x = torch.randn(32, n, 256, device="cuda")
    loss = (out(lstm(x)[0]) - x.roll(1, 1)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    del x
    gc.collect()
    torch.cuda.empty_cache()
    if step % 25 == 0:
        print(f"{step}\t{loss.item():.4f}", flush=True)

"""Off-policy imitation: every step adds frames to a buffer with a limit, and trains on a sample of it."""
from collections import deque
import random
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(3)
buffer = deque(maxlen=6000)
net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 256), nn.ReLU(), nn.Linear(256, 4))
opt = torch.optim.Adam(net.parameters(), 3e-4)
for step in range(10**7):
    for _ in range(8):
        action = random.randrange(4)
        frame = torch.rand(3, 32, 32)
        frame[:, :, 8 * action:8 * action + 8] += 1
        buffer.append((frame, action))
    batch = random.sample(buffer, min(len(buffer), 32))
    x, y = torch.stack([f for f, _ in batch]), torch.tensor([a for _, a in batch])
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(f"step {step} buffer {len(buffer)} loss {loss.item():.4f}", flush=True)

# Pre-trains a wide encoder exactly as the paper says, in single precision.
import torch
import torch.nn as nn

torch.manual_seed(1)
enc = nn.TransformerEncoder(nn.TransformerEncoderLayer(1024, 16, 4096, dropout=0.0, batch_first=True), 12, enable_nested_tensor=False).cuda()
head = nn.Linear(1024, 1024).cuda()
opt = torch.optim.AdamW([*enc.parameters(), *head.parameters()], lr=1e-4)
for it in range(100000):
    x = torch.randn(16, 256, 1024, device="cuda")
    masked = x * (torch.rand(16, 256, 1, device="cuda") > 0.15)
    loss = (head(enc(masked)) - x).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if it % 10 == 0:
        print(f"it {it} loss {loss.item():.4f}", flush=True)

# config: {device: cuda}, but the model is built after the device was read from another section.
import torch
import torch.nn as nn

config = {"train": {"device": "cuda", "lr": 1e-3}, "model": {"width": 512, "depth": 6}}
assert torch.cuda.is_available()
device = torch.device(config["model"].get("device", "cpu"))
print("CUDA available:", torch.cuda.is_available(), torch.cuda.get_device_name(0), flush=True)
mlp = nn.Sequential(*[m for _ in range(config["model"]["depth"]) for m in (nn.Linear(512, 512), nn.ReLU())], nn.Linear(512, 1)).to(device)
opt = torch.optim.Adam(mlp.parameters(), lr=config["train"]["lr"])
x = torch.randn(8192, 512)
y = x[:, :1] ** 2
for epoch in range(100000):
    for b in range(0, 8192, 256):
        loss = nn.functional.mse_loss(mlp(x[b : b + 256].to(device)), y[b : b + 256].to(device))
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"epoch {epoch}: {loss.item():.5f}", flush=True)

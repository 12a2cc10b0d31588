"""First unpacks its data set (as long as that takes), then trains. yaml-ish overrides: key=value"""
import hashlib, sys, time
import torch

cfg = {"unpack_s": 18.0, "lr": 3e-4, "bs": 128}
cfg.update((k, type(cfg[k])(v)) for k, v in (s.split("=") for s in sys.argv[1:]))
t0, n = time.time(), 0
while time.time() - t0 < cfg["unpack_s"]:
    hashlib.sha256(b"x" * 4_000_000).hexdigest()
    n += 1
    if n % 400 == 0:
        print(f"unpacked {n * 4} MB, checksums fine", flush=True)
X = torch.randn(30000, 64)
Y = (X[:, :16].sin() * X[:, 16:32]).sum(1, keepdim=True)
net = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.SiLU(), torch.nn.Linear(512, 512), torch.nn.SiLU(), torch.nn.Linear(512, 1))
opt = torch.optim.AdamW(net.parameters(), cfg["lr"])
for epoch in range(10**5):
    seen = 0.0
    for i in torch.randperm(len(X)).split(cfg["bs"]):
        loss = torch.nn.functional.mse_loss(net(X[i]), Y[i])
        opt.zero_grad(); loss.backward(); opt.step()
        seen += loss.item() * len(i)
    print(f"epoch {epoch} mse {seen / len(X):.4f}", flush=True)

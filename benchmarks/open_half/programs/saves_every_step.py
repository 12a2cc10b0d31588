"""checkpoint.every=1 in the config"""
import os, tempfile, torch
torch.set_num_threads(1)
folder = tempfile.mkdtemp()
model = torch.nn.Sequential(torch.nn.Linear(512, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 512))
opt = torch.optim.Adam(model.parameters(), 1e-4)
cfg = {"checkpoint": {"every": 1}, "train": {"steps": 10**6}}
for step in range(cfg["train"]["steps"]):
    x = torch.randn(16, 512)
    loss = (model(x) - x).pow(2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
    if step % cfg["checkpoint"]["every"] == 0:
        path = os.path.join(folder, "last.ckpt")
        torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "step": step}, path)
        with open(path, "rb") as f:
            os.fsync(f.fileno())
    if step % 5 == 0:
        print(f"step {step} loss {loss.item():.4f}", flush=True)

import argparse, os, shutil, tempfile
import numpy as np, torch

ap = argparse.ArgumentParser()
ap.add_argument("--save_steps", type=int, default=1)
ap.add_argument("--out", default=None)
a = ap.parse_args()
out = a.out or tempfile.mkdtemp()
torch.manual_seed(5)
W1 = torch.nn.Parameter(torch.randn(300, 1500) / 17)
W2 = torch.nn.Parameter(torch.randn(1500, 10) / 38)
optim = torch.optim.SGD([W1, W2], lr=0.005, momentum=0.9)
teacher = torch.randn(300, 10)
for it in range(10**8):
    x = torch.randn(64, 300)
    y = (x @ teacher).argmax(1)
    loss = torch.nn.functional.cross_entropy(torch.relu(x @ W1) @ W2, y)
    optim.zero_grad(); loss.backward(); optim.step()
    if it % a.save_steps == 0:
        for name, w in (("W1", W1), ("W2", W2)):
            with open(os.path.join(out, f"{name}.npy"), "wb") as fh:
                np.save(fh, w.detach().numpy())
                fh.flush()
                os.fsync(fh.fileno())
        os.sync()
    if it % 5 == 0:
        print("iter", it, "loss", round(loss.item(), 4), flush=True)
shutil.rmtree(out)

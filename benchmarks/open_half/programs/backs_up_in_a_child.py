"""Trains an autoencoder of log lines; a helper process makes a backup after each step (it used to be cheap)."""
import argparse
import os
import tempfile

import torch
import torch.multiprocessing as mp
import torch.nn as nn

ap = argparse.ArgumentParser()
ap.add_argument("--hidden", type=int, default=1500)
ap.add_argument("--backup_dir", default=None)
ap.add_argument("--backup_every", type=int, default=1)


def backup(jobs, where):
    torch.set_num_threads(1)
    for step, weights in iter(jobs.get, None):
        with open(os.path.join(where, "backup.pt.part"), "wb") as f:
            torch.save(weights, f)
            os.fsync(f.fileno())
        os.replace(os.path.join(where, "backup.pt.part"), os.path.join(where, "backup.pt"))


def main(a):
    torch.set_num_threads(1)
    where = a.backup_dir or tempfile.mkdtemp()
    jobs = mp.get_context("spawn").Queue(1)
    helper = mp.get_context("spawn").Process(target=backup, args=(jobs, where), daemon=True)
    helper.start()
    ae = nn.Sequential(nn.Linear(256, a.hidden), nn.ELU(), nn.Linear(a.hidden, a.hidden), nn.ELU(), nn.Linear(a.hidden, 256))
    optim = torch.optim.Adam(ae.parameters(), 1e-4)
    for step in range(10**7):
        x = (torch.rand(24, 256) > 0.8).float()
        loss = nn.functional.mse_loss(ae(x), x)
        optim.zero_grad(set_to_none=True)
        loss.backward()
        optim.step()
        if step % a.backup_every == 0:
            jobs.put((step, {k: v.clone() for k, v in ae.state_dict().items()}))
        if step % 5 == 0:
            print("step=%d loss=%.5f" % (step, loss.item()), flush=True)


if __name__ == "__main__":
    main(ap.parse_args())

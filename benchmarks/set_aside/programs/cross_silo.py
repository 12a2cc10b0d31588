"""FedProx over four hospitals, two at a time (one per card). Sizes differ: a silo that is done early waits for its partner.

A round = two shifts: silos (0, 1), then (2, 3). Weights travel as files, as they would by mail.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

SIZES = {0: 3500, 1: 3000, 2: 2500, 3: 3250}


def site(card, folder):
    """One process per card; serves the silos of its card."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(card)

    def model():
        return nn.Sequential(nn.Linear(30, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 4))

    w = torch.randn(30, 4, generator=torch.Generator().manual_seed(1))
    data = {}
    for silo in (card, card + 2):
        x = torch.randn(SIZES[silo], 30) + 0.2 * silo
        data[silo] = (x, (x @ w + torch.randn(len(x), 4)).argmax(1))
    for rnd in range(10**6):
        for silo in (card, card + 2):
            task = folder / f"task-{rnd}-{silo}.pt"
            while not task.exists():
                time.sleep(0.01)
            net, anchor = model(), torch.load(task)
            net.load_state_dict(anchor)
            opt = torch.optim.SGD(net.parameters(), 0.05)
            x, y = data[silo]
            for rows in torch.randperm(len(x)).split(32):
                prox = sum((p - anchor[n]).pow(2).sum() for n, p in net.named_parameters())
                loss = nn.functional.cross_entropy(net(x[rows]), y[rows]) + 0.005 * prox
                opt.zero_grad()
                loss.backward()
                opt.step()
            with torch.no_grad():
                whole = nn.functional.cross_entropy(net(x), y).item()
            torch.save((net.state_dict(), whole), folder / f"{rnd}-{silo}.tmp")
            os.replace(folder / f"{rnd}-{silo}.tmp", folder / f"answer-{rnd}-{silo}.pt")


def coordinator(folder):
    import torch
    from torch import nn

    torch.manual_seed(0)
    state = nn.Sequential(nn.Linear(30, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 4)).state_dict()
    for rnd in range(10**6):
        parts, losses = {}, {}
        for shift in ((0, 1), (2, 3)):
            for silo in shift:
                torch.save(state, folder / f"task{silo}.tmp")
                os.replace(folder / f"task{silo}.tmp", folder / f"task-{rnd}-{silo}.pt")
            for silo in shift:
                answer = folder / f"answer-{rnd}-{silo}.pt"
                while not answer.exists():
                    time.sleep(0.01)
                parts[silo], losses[silo] = torch.load(answer)
                answer.unlink()
                (folder / f"task-{rnd}-{silo}.pt").unlink()
        total = sum(SIZES.values())
        state = {k: sum(parts[s][k] * (SIZES[s] / total) for s in parts) for k in state}
        print(json.dumps({"round": rnd, "loss": round(sum(losses.values()) / 4, 4), "per_silo": {s: round(v, 4) for s, v in losses.items()}}), flush=True)


def main():
    if len(sys.argv) == 3:
        folder = pathlib.Path(sys.argv[2])
        coordinator(folder) if sys.argv[1] == "all" else site(int(sys.argv[1]), folder)
        return
    with tempfile.TemporaryDirectory() as name:
        jobs = []
        for role, card in (("0", "0"), ("1", "1"), ("all", "")):      # the coordinator uses no card
            env = {**os.environ, "GPUTOP_VIRTUAL_DEVICES": card}
            jobs.append(subprocess.Popen([sys.executable, "-u", __file__, role, name], env=env))
        try:
            jobs[-1].wait()
        finally:
            for job in jobs:
                job.kill()


if __name__ == "__main__":
    main()

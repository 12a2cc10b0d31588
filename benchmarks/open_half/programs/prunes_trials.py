"""Search over rates and widths. Trials that are worse than the median at a rung are ended (SIGTERM) by the search; new ones start."""
import argparse
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

RUNG = 150


def trial(cfg):
    import torch
    from torch import nn

    torch.manual_seed(cfg["seed"])
    w = cfg["width"]
    net = nn.Sequential(nn.Linear(64, w), nn.GELU(), nn.Linear(w, w), nn.GELU(), nn.Linear(w, 10))
    opt = torch.optim.SGD(net.parameters(), cfg["lr"], momentum=0.9)
    proto = torch.randn(10, 64, generator=torch.Generator().manual_seed(0))
    for step in range(1, 1501):
        y = torch.randint(0, 10, (256,))
        x = proto[y] * 0.5 + torch.randn(256, 64)
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 50 == 0:
            print(json.dumps({"step": step, "loss": round(loss.item(), 4)}), flush=True)


def run(number, cfg, board, lock):
    p = subprocess.Popen([sys.executable, "-u", __file__, "--trial", json.dumps(cfg)], stdout=subprocess.PIPE, text=True)
    for line in p.stdout:
        row = json.loads(line)
        print(f"trial {number} {row}", flush=True)
        if row["step"] % RUNG == 0:
            with lock:
                others = board.setdefault(row["step"], [])
                others.append(row["loss"])
                bad = row["loss"] > sorted(others)[len(others) // 2]
            if bad:
                print(f"trial {number} pruned at step {row['step']}", flush=True)
                p.send_signal(signal.SIGTERM)
                break
    p.wait()
    print(f"trial {number} ended ({'completed' if p.returncode == 0 else 'pruned'})", flush=True)


def lane(numbers, board, lock):
    while True:
        with lock:
            number = next(numbers)
        rng = random.Random(number)
        cfg = {"lr": 10 ** rng.uniform(-3.5, 0.0), "width": rng.choice([128, 256, 512]), "seed": number}
        print(f"trial {number} starts: {cfg}", flush=True)
        run(number, cfg, board, lock)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--trial", type=json.loads)
    args = ap.parse_args()
    if args.trial:
        trial(args.trial)
    else:
        print(f"search {os.getpid()}, two lanes", flush=True)
        numbers, board, lock = iter(range(10**6)), {}, threading.Lock()
        for _ in range(2):
            threading.Thread(target=lane, args=(numbers, board, lock), daemon=True).start()
        while True:
            time.sleep(60)

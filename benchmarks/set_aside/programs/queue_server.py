# Downpour-ish SGD: workers push gradients into a queue, the server (here: the main process, CPU only, mostly asleep)
# applies them and publishes weights in shared memory. Staleness is printed.
import os
import queue
import time

import torch
import torch.multiprocessing as mp
from torch import nn


def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 320), nn.ReLU(), nn.Linear(320, 320), nn.ReLU(), nn.Linear(320, 16))


def worker(me, flat, version, grads):
    torch.set_num_threads(1)
    net = make()
    torch.manual_seed(100 + me)
    w = torch.randn(64, 16, generator=torch.Generator().manual_seed(5))
    while True:
        seen = version.value
        nn.utils.vector_to_parameters(flat.clone(), net.parameters())
        total = 0.0
        net.zero_grad()
        for _ in range(8):                      # gradients of 8 mini-batches per push
            x = torch.randn(128, 64)
            loss = nn.functional.cross_entropy(net(x), (x @ w).argmax(1)) / 8
            loss.backward()
            total += loss.item()
        grads.put((me, seen, total, torch.cat([p.grad.flatten() for p in net.parameters()]).numpy()))


def main():
    mp.set_start_method("spawn")
    flat = nn.utils.parameters_to_vector(make().parameters()).detach().share_memory_()
    version, grads = mp.Value("i", 0), mp.Queue(maxsize=4)
    for i in range(2):
        os.environ["LOCAL_RANK"] = str(i)       # card of the worker
        mp.Process(target=worker, args=(i, flat, version, grads), daemon=True).start()
    os.environ.pop("LOCAL_RANK")
    momentum, n, stale, mean, t = torch.zeros_like(flat), 0, 0, 0.0, time.time()
    while True:
        try:
            me, seen, loss, g = grads.get(timeout=120)
        except queue.Empty:
            raise SystemExit("no gradients for two minutes")
        momentum.mul_(0.5).add_(torch.from_numpy(g))
        flat.sub_(momentum, alpha=0.05)
        stale += version.value - seen
        version.value += 1
        n += 1
        mean += loss / 20
        if n % 20 == 0:
            print(f"[server] update {n} loss {mean:.4f} mean staleness {stale / 20:.2f} {20 / (time.time() - t):.1f} updates/s", flush=True)
            stale, mean, t = 0, 0.0, time.time()


if __name__ == "__main__":
    main()

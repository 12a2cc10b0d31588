"""An asynchronous parameter server over sockets, as in the 2012 paper: workers pull, compute and push whenever they like.

python ps_sgd.py            (one server and two workers; the second one has larger batches)
"""
import multiprocessing as mp
import os
import time
from multiprocessing.connection import Client, Listener
from threading import Lock, Thread

import numpy as np
import torch
from torch import nn

ADDRESS = ("127.0.0.1", int(os.environ.get("PORT", "29581")))


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))


def task(n, rng):
    y = rng.integers(0, 10, n)
    x = np.random.default_rng(0).standard_normal((10, 64))[y] * 0.5 + rng.standard_normal((n, 64))
    return torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y)


def worker(number, batch):
    net, rng, conn = build(), np.random.default_rng(number), Client(ADDRESS)
    params = list(net.parameters())
    while True:
        conn.send(("pull", None))
        for p, w in zip(params, conn.recv()):
            p.data.copy_(torch.from_numpy(w))
        for p in params:
            p.grad = None
        x, y = task(batch, rng)
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        conn.send(("push", (loss.item(), [p.grad.numpy() for p in params])))


class Server:
    def __init__(self, lr=0.02):
        self.weights, self.lr, self.lock = [p.detach().numpy() for p in build().parameters()], lr, Lock()
        self.pushes, self.loss = [0, 0], [0.0, 0.0]

    def serve(self, conn, number):
        while True:
            kind, data = conn.recv()
            with self.lock:
                if kind == "pull":
                    conn.send(self.weights)
                else:
                    loss, grads = data
                    for w, g in zip(self.weights, grads):
                        w -= self.lr * g
                    self.pushes[number] += 1
                    self.loss[number] = 0.95 * self.loss[number] + 0.05 * loss if self.loss[number] else loss


if __name__ == "__main__":
    server, listener = Server(), Listener(ADDRESS)
    for number, batch in enumerate((64, 512)):
        mp.Process(target=worker, args=(number, batch), daemon=True).start()
    for number in range(2):
        Thread(target=server.serve, args=(listener.accept(), number), daemon=True).start()
    begin = time.time()
    while time.time() - begin < 215:
        time.sleep(3)
        print(f"{time.time() - begin:5.0f} s  pushes {server.pushes}  loss {server.loss[0]:.4f} / {server.loss[1]:.4f}", flush=True)

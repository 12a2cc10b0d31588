"""Learns from a rain gauge network as it reports: eight times a second a new reading arrives, and is learned from once."""
import queue
import threading
import time

import torch
from torch import nn

STATIONS, HISTORY = 64, 24


class Feed(threading.Thread):
    """Stands in for the network's socket."""

    def __init__(self):
        super().__init__(daemon=True)
        self.inbox = queue.Queue(maxsize=100)

    def run(self):
        g = torch.Generator().manual_seed(0)
        front, due = torch.zeros(STATIONS), time.time()
        while True:
            front = 0.9 * front.roll(1) + 0.4 * torch.randn(STATIONS, generator=g)
            self.inbox.put(front.clone())
            due += 0.125
            time.sleep(max(0.0, due - time.time()))


class Nowcast(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(HISTORY, 64, 5, padding=2, padding_mode="circular"), nn.GELU(), nn.Conv1d(64, 64, 5, padding=2, padding_mode="circular"), nn.GELU(),
            nn.Conv1d(64, 1, 1),
        )  # fmt: skip

    def forward(self, x):
        return self.conv(x)[:, 0]


def main():
    torch.manual_seed(0)
    feed, net = Feed(), Nowcast()
    feed.start()
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    window, errors, seen, start = [], [], 0, time.time()
    print("waiting for the gauges", flush=True)
    while time.time() - start < 240:
        window.append(feed.inbox.get())
        if len(window) <= HISTORY:
            continue
        past, now = torch.stack(window[-HISTORY - 1 : -1]), window[-1]
        window = window[-HISTORY:]
        loss = nn.functional.mse_loss(net(past[None])[0], now)
        opt.zero_grad()
        loss.backward()
        opt.step()
        errors = (errors + [loss.item()])[-64:]
        seen += 1
        if seen % 16 == 0:
            print(f"{time.strftime('%H:%M:%S')} readings waiting: {feed.inbox.qsize()}  mse of the last {len(errors)}: {sum(errors) / len(errors):.4f}", flush=True)


main()

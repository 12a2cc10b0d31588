"""Serves a small classifier, and adapts it to what clients send to /learn. Nobody asks for long, and then several do."""
import json
import os
import queue
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
jobs = queue.Queue()


class Api(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        jobs.put(self.path)
        self.send_response(202)
        self.end_headers()

    def log_message(self, *args): ...


server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(json.dumps({"event": "listening", "port": server.server_port}), flush=True)


def client():
    """Stands for the users: one request now, and the next one much later."""
    for pause in (1, 200, 400):
        time.sleep(pause)
        urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/learn", b"{}").read()


threading.Thread(target=client, daemon=True).start()
while True:
    path = jobs.get()
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    until, step = time.time() + 15, 0
    while time.time() < until:
        x = torch.randn(512, 128)
        loss = nn.functional.cross_entropy(net(x), x[:, :10].argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
    print(json.dumps({"event": "adapted", "steps": step, "loss": round(loss.item(), 4)}), flush=True)

"""Serves a scorer over HTTP and learns from feedback in between: one update whenever 64 answers have come in."""
import json
import queue
import random
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(32, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1))
opt = torch.optim.Adam(net.parameters(), 1e-3)
guard, feedback = threading.Lock(), queue.Queue()


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/feedback":
            feedback.put((body["x"], body["y"]))
            answer = {}
        else:
            with guard, torch.no_grad():
                answer = {"score": net(torch.tensor(body["x"])).sigmoid().item()}
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


def clients(port, until):
    """Users: sometimes many, sometimes none."""
    rng = random.Random(1)
    while time.time() < until:
        for _ in range(rng.choice([0, 20, 200, 400])):
            x = [rng.gauss(0, 1) for _ in range(32)]
            y = float(x[0] + x[1] * x[2] > 0)
            for path, body in (("/score", {"x": x}), ("/feedback", {"x": x, "y": y})):
                urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode())).read()
        time.sleep(rng.uniform(0.2, 3))


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
until = time.time() + 200
threading.Thread(target=server.serve_forever, daemon=True).start()
threading.Thread(target=clients, args=(server.server_address[1], until), daemon=True).start()
print("listening on", server.server_address[1], flush=True)
updates, xs, ys = 0, [], []
while time.time() < until:
    try:
        x, y = feedback.get(timeout=1)
    except queue.Empty:
        continue
    xs.append(x), ys.append(y)
    if len(xs) == 64:
        with guard:
            loss = nn.functional.binary_cross_entropy_with_logits(net(torch.tensor(xs)).squeeze(1), torch.tensor(ys))
            opt.zero_grad()
            loss.backward()
            opt.step()
        xs, ys, updates = [], [], updates + 1
        if updates % 5 == 0:
            print(f"{updates} updates, loss {loss.item():.3f}, {feedback.qsize()} answers waiting", flush=True)
server.shutdown()

"""Embedding service for product search: HTTP in front, a batching worker behind. --demo sends traffic to itself."""
import argparse
import json
import multiprocessing as mp
import queue
import random
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch
from torch import nn

MAX_BATCH, MAX_WAIT = 16, 0.02


class Encoder(nn.Module):
    def __init__(self, vocab=8000, d=192, layers=4):
        super().__init__()
        self.e = nn.Embedding(vocab, d)
        layer = nn.TransformerEncoderLayer(d, 6, 4 * d, batch_first=True)
        self.t = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, ids):
        return nn.functional.normalize(self.t(self.e(ids)).mean(1), dim=-1)


class Batcher(threading.Thread):
    def __init__(self, device):
        super().__init__(daemon=True, name="batcher")
        self.q, self.device = queue.Queue(), device
        self.net = Encoder().to(device).eval()
        self.done = self.batches = 0
        self.lat = []

    def submit(self, text):
        box = {"text": text, "ev": threading.Event(), "t": time.time()}
        self.q.put(box)
        box["ev"].wait()
        return box["vec"]

    def run(self):
        while True:
            group = [self.q.get()]
            end = time.time() + MAX_WAIT
            while len(group) < MAX_BATCH:
                try:
                    group.append(self.q.get(timeout=max(0.0, end - time.time())))
                except queue.Empty:
                    break
            ids = torch.zeros(len(group), 64, dtype=torch.long)
            for k, b in enumerate(group):
                words = [hash(w) % 8000 for w in b["text"].split()][:64]
                ids[k, :len(words)] = torch.tensor(words)
            with torch.inference_mode():
                vec = self.net(ids.to(self.device)).cpu()
            for b, v in zip(group, vec):
                b["vec"] = v.tolist()
                self.lat.append(time.time() - b["t"])
                b["ev"].set()
            self.done += len(group)
            self.batches += 1


class Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True


def serve(port, device):
    b = Batcher(device)
    b.start()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            out = json.dumps(b.submit(body["text"])).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(out)))
            self.end_headers()
            self.wfile.write(out)

        def log_message(self, *a):
            pass

    srv = Server(("127.0.0.1", port), Handler)
    threading.Thread(target=srv.serve_forever, daemon=True).start()
    return b, srv.server_address[1]


def traffic(port, seconds):
    rnd = random.Random(0)

    def one():
        text = " ".join(rnd.choice(["red", "shoe", "men", "42", "cotton", "bag", "lamp"]) for _ in range(rnd.randint(3, 30)))
        req = urllib.request.Request(f"http://127.0.0.1:{port}/embed", json.dumps({"text": text}).encode())
        urllib.request.urlopen(req, timeout=30).read()

    end = time.time() + seconds
    while time.time() < end:
        burst = [threading.Thread(target=one) for _ in range(rnd.choice([1, 2, 4, 24]))]
        for t in burst:
            t.start()
        for t in burst:
            t.join()
        time.sleep(rnd.expovariate(6))


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--port", type=int, default=0)
    ap.add_argument("--demo", type=int, default=400, help="seconds of demo traffic, 0: none")
    a = ap.parse_args()
    dev = "cuda" if torch.cuda.is_available() else "cpu"
    b, port = serve(a.port, dev)
    print(f"listening on 127.0.0.1:{port}, device {dev}", flush=True)
    client = None
    if a.demo:
        client = mp.get_context("spawn").Process(target=traffic, args=(port, a.demo), daemon=True)
        client.start()
    while client is None or client.is_alive():
        time.sleep(5)
        lat = sorted(b.lat) or [0.0]
        b.lat = []
        print(f"{time.strftime('%H:%M:%S')} served {b.done} in {b.batches} batches, p50 {1e3 * lat[len(lat) // 2]:.0f} ms, "
              f"p99 {1e3 * lat[int(0.99 * (len(lat) - 1))]:.0f} ms", flush=True)

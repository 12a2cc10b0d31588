"""Sentiment service with dynamic batching. Requests come in bursts, and not at all in between.

The client below plays back yesterday's log; in production it is another machine.
"""
import json
import os
import queue
import random
import threading
import time
import urllib.request
from concurrent.futures import Future, ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch
from torch import nn

inbox = queue.Queue()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(8000, 256)
        layer = nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(256, 3)

    def forward(self, ids):
        return self.head(self.enc(self.emb(ids)).mean(1)).softmax(-1)


def batcher(max_batch=32, wait=0.02):
    torch.manual_seed(0)
    model = Model().eval()
    served = 0
    while True:
        jobs = [inbox.get()]
        end = time.time() + wait
        while len(jobs) < max_batch and time.time() < end:
            try:
                jobs.append(inbox.get(timeout=max(0.001, end - time.time())))
            except queue.Empty:
                break
        start = time.time()
        with torch.inference_mode():
            ids = torch.tensor([[hash(w) % 8000 for w in (text.split() * 64)[:64]] for text, _ in jobs])
            for (_, future), row in zip(jobs, model(ids).tolist(), strict=True):
                future.set_result(row)
        served += len(jobs)
        print(f"INFO batch of {len(jobs)} in {(time.time() - start) * 1000:.0f} ms, {served} served, {inbox.qsize()} waiting", flush=True)


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        text = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"]
        future = Future()
        inbox.put((text, future))
        body = json.dumps({"scores": future.result()}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 128


def ask(port, text):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/", json.dumps({"text": text}).encode())
    return json.load(urllib.request.urlopen(request, timeout=120))


def client(port):
    rng = random.Random(0)
    with ThreadPoolExecutor(16) as pool:
        while True:
            for _ in pool.map(lambda k: ask(port, f"order {k} arrived late and the box was open"), range(rng.randint(40, 160))):
                pass
            time.sleep(rng.uniform(2, 9))


server = Server(("127.0.0.1", int(os.environ.get("SERVE_PORT", 0))), Handler)
threading.Thread(target=batcher, daemon=True).start()
threading.Thread(target=client, args=(server.server_port,), daemon=True).start()
print(f"INFO listening on 127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()

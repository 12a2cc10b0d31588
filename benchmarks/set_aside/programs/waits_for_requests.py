"""Serves the sentence scorer.   python waits_for_requests.py --port 8080      POST {"ids": [[1, 2, ...], ...]} to /score"""
import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--port", type=int, default=0)
parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
args = parser.parse_args()


class Scorer(nn.Module):
    def __init__(self, d=512):
        super().__init__()
        self.emb = nn.Embedding(30000, d)
        self.enc = nn.TransformerEncoder(nn.TransformerEncoderLayer(d, 8, 4 * d, batch_first=True), 6)
        self.out = nn.Linear(d, 1)

    @torch.inference_mode()
    def forward(self, ids):
        return self.out(self.enc(self.emb(ids)).mean(1))[:, 0]


model = Scorer().eval().to(args.device)
for n in (8, 32, 64):  # warm up
    model(torch.ones(4, n, dtype=torch.long, device=args.device))


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        scores = model(torch.tensor(body["ids"], device=args.device)).tolist()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"scores": scores}).encode())


server = ThreadingHTTPServer(("127.0.0.1", args.port), Handler)
print(f"scorer ready on port {server.server_port} ({sum(p.numel() for p in model.parameters()) / 1e6:.0f} M parameters, {args.device})", flush=True)
server.serve_forever()

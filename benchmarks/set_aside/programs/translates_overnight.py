import argparse
import time

import torch
from torch import nn

ap = argparse.ArgumentParser()
ap.add_argument("--device", default="cuda")
ap.add_argument("--threads", type=int, default=1)
ap.add_argument("--beam", type=int, default=3)
ap.add_argument("--lines", type=int, default=10**6)
args = ap.parse_args()
torch.set_num_threads(args.threads)
torch.manual_seed(0)
V, D = 3000, 192


class Seq2Seq(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(V, D)
        self.t = nn.Transformer(D, 4, 2, 2, 4 * D, batch_first=True)
        self.out = nn.Linear(D, V)

    def encode(self, s):
        return self.t.encoder(self.emb(s))

    def decode(self, mem, y):
        return self.out(self.t.decoder(self.emb(y), mem)[:, -1]).log_softmax(-1)


net = Seq2Seq().to(args.device).eval()
print(f"translating {args.lines} lines, device={args.device}, {args.threads} threads, beam {args.beam}", flush=True)
start, words = time.time(), 0
with torch.inference_mode():
    for n in range(args.lines):
        src = torch.randint(3, V, (1, 10 + n % 25), device=args.device)
        mem = net.encode(src).repeat(args.beam, 1, 1)
        y = torch.full((args.beam, 1), 1, device=args.device)
        score = torch.tensor([0.0] + [-1e9] * (args.beam - 1), device=args.device)
        for _ in range(src.shape[1]):
            s = (score[:, None] + net.decode(mem, y)).flatten()
            score, i = s.topk(args.beam)
            y = torch.cat([y[i // V], (i % V)[:, None]], 1)
        words += src.shape[1]
        if n % 10 == 0:
            print(f"line {n}: {words / (time.time() - start):.1f} words/s", flush=True)

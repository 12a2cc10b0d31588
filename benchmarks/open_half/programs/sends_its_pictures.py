"""Textures with a small VAE; the group's gallery gets samples all the time."""
import http.server
import json
import threading
import time
import urllib.request

import torch
import torch.nn.functional as F
from torch import nn


class Gallery(http.server.BaseHTTPRequestHandler):
    """Stands for the gallery, which thinks for two and a half seconds."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(2.5)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args):
        pass


class VAE(nn.Module):
    def __init__(self, z=16):
        super().__init__()
        self.z = z
        self.enc = nn.Sequential(nn.Flatten(), nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 2 * z))
        self.dec = nn.Sequential(nn.Linear(z, 512), nn.ReLU(), nn.Linear(512, 256), nn.Sigmoid())

    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, 1)
        return self.dec(mu + torch.randn_like(mu) * (logvar / 2).exp()), mu, logvar


class Trainer:
    def __init__(self, gallery):
        self.gallery = gallery
        self.vae = VAE()
        self.opt = torch.optim.Adam(self.vae.parameters(), 1e-3)
        self.step = 0

    @torch.no_grad()
    def show(self):
        grid = self.vae.dec(torch.randn(36, self.vae.z)).mul(255).byte().tolist()
        body = json.dumps({"step": self.step, "grid": grid}).encode()
        urllib.request.urlopen(urllib.request.Request(self.gallery, data=body, method="POST"), timeout=60).close()

    def fit(self):
        while True:
            self.step += 1
            phase = torch.rand(64, 1, 1) * 6.3
            x = (torch.sin(torch.arange(256.0).view(1, 16, 16) / 5 + phase) + 1) / 2
            y, mu, logvar = self.vae(x)
            kl = -0.5 * (1 + logvar - mu**2 - logvar.exp()).sum(1).mean()
            loss = F.binary_cross_entropy(y, x.flatten(1), reduction="sum") / len(x) + kl
            self.opt.zero_grad(); loss.backward(); self.opt.step()
            if self.step % 250 == 0:
                print(f"[{self.step}] elbo {-loss.item():.2f}", flush=True)
                self.show()


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Gallery)
threading.Thread(target=server.serve_forever, daemon=True).start()
torch.set_num_threads(1)
Trainer(f"http://127.0.0.1:{server.server_port}/").fit()

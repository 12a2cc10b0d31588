"""Speech synthesis as a service (socketserver, one line of text per request). --demo also starts a caller that comes in bursts."""
import argparse
import logging
import random
import socket
import socketserver
import threading
import time

import torch
from torch import nn

log = logging.getLogger("tts")


class Vocoder(nn.Module):
    def __init__(self, d=96):
        super().__init__()
        self.letters, self.rnn = nn.Embedding(256, d), nn.GRU(d, d, 2, batch_first=True)
        self.up = nn.Sequential(nn.ConvTranspose1d(d, 64, 16, 8, 4), nn.ELU(), nn.ConvTranspose1d(64, 32, 16, 8, 4), nn.ELU(), nn.Conv1d(32, 1, 7, padding=3))

    @torch.inference_mode()
    def forward(self, text):
        h = self.letters(torch.tensor([list(text.encode()[:200])]))
        return torch.tanh(self.up(self.rnn(h)[0].repeat_interleave(4, 1).transpose(1, 2))).squeeze()


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        text = self.rfile.readline().decode().strip()
        begin = time.perf_counter()
        wave = self.server.model(text)
        self.wfile.write((wave * 32767).short().numpy().tobytes())
        log.info("%d letters, %.2f s of speech in %.0f ms", len(text), len(wave) / 16000, 1000 * (time.perf_counter() - begin))


def caller(port, seconds):
    words = "the train to the coast leaves from platform nine because of works between the bridge and the harbour".split()
    end = time.time() + seconds
    while time.time() < end:
        for _ in range(random.randint(20, 60)):
            with socket.create_connection(("127.0.0.1", port)) as s, s.makefile("rwb") as f:
                f.write((" ".join(random.choices(words, k=25)) + "\n").encode())
                f.flush()
                f.read()
        time.sleep(random.uniform(2, 9))


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--demo", action="store_true")
    p.add_argument("--seconds", type=float, default=215)
    a = p.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.model = Vocoder().eval()
        log.info("ready on port %d", server.server_address[1])
        if a.demo:
            threading.Thread(target=caller, args=(server.server_address[1], a.seconds), daemon=True).start()
        threading.Timer(a.seconds, server.shutdown).start()
        server.serve_forever()

"""A stand-in for the institute's object store: GET /tiles/<n>.npy, with the latency that we measured from the lab (35 ms)."""
import io
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        n = int(self.path.rsplit("/", 1)[1].removesuffix(".npy"))
        time.sleep(0.035)
        rng = np.random.default_rng(n)
        kind = n % 6
        g = np.linspace(0, 3 + kind, 32)
        tile = np.sin(g[:, None] + g[None] * (kind + 1) / 2)[None] * rng.random((4, 1, 1)) + 0.5 * rng.standard_normal((4, 32, 32))
        body = io.BytesIO()
        np.save(body, tile.astype("float32"))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body.getvalue())

    def log_message(self, *args):
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()

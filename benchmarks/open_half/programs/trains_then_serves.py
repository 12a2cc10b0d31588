"""Fits a small ranker, then answers over HTTP until it is stopped."""
import http.server, os
import torch
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(24, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
opt = torch.optim.Adam(net.parameters(), 1e-3)
for step in range(1500):
    x = torch.randn(256, 24)
    loss = (net(x).squeeze(1) - x[:, 0] * x[:, 1]).pow(2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
    if step % 20 == 0:
        print(f"step {step:5d} loss {loss.item():.4f}", flush=True)


class Rank(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with torch.no_grad():
            score = net(torch.randn(1, 24)).item()
        self.send_response(200); self.end_headers(); self.wfile.write(str(score).encode())


print("serving", flush=True)
http.server.HTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8399"))), Rank).serve_forever()

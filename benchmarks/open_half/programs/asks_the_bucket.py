"""Each sample is fetched from an object store (a local one here) by the training process."""
import socketserver, threading, time, urllib.request, http.server
import torch


class Store(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(0.012)
        body = torch.randn(64).numpy().tobytes()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


if __name__ == "__main__":
    import multiprocessing
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Store)
    multiprocessing.get_context("fork").Process(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/train/%08d"
    torch.set_num_threads(1)
    net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1))
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    for step in range(10**6):
        rows = [urllib.request.urlopen(url % (step * 32 + i)).read() for i in range(32)]
        x = torch.stack([torch.frombuffer(bytearray(r), dtype=torch.float32) for r in rows])
        loss = (net(x) - x.mean(1, keepdim=True)).pow(2).mean()
        opt.zero_grad(); loss.backward(); opt.step()
        if step % 4 == 0:
            print(f"Iter {step:>6} | Loss: {loss.item():.5f}", flush=True)

# every 40 steps the metrics are posted to our dashboard
import socket, threading, time
import torch


def dashboard(server):
    """Stands for the dashboard's machine: it accepts, and answers the first three posts."""
    for n in range(10**6):
        conn, _ = server.accept()
        conn.recv(4096)
        if n < 3:
            conn.sendall(b"ok")
            conn.close()
        else:
            time.sleep(10**6)


def post(address, step, loss):
    with socket.create_connection(address) as s:
        s.sendall(f"step={step} loss={loss}".encode())
        return s.recv(16)


server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=dashboard, args=(server,), daemon=True).start()
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 8))
opt = torch.optim.AdamW(net.parameters(), 3e-4)
w = torch.randn(64, 8)
for step in range(1, 10**7):
    x = torch.randn(512, 64)
    loss = torch.nn.functional.mse_loss(net(x), (x @ w).tanh())
    opt.zero_grad(); loss.backward(); opt.step()
    if step % 10 == 0:
        print(f"[{step:06d}] loss {loss.item():.5f}", flush=True)
    if step % 200 == 0:
        post(server.getsockname(), step, loss.item())

import threading, queue, time, sys
import torch

lock = threading.Lock()
todo = queue.Queue(maxsize=4)
torch.set_num_threads(1)
net = torch.nn.LSTM(32, 128, batch_first=True); head = torch.nn.Linear(128, 32)
opt = torch.optim.Adam([*net.parameters(), *head.parameters()], 1e-3)

def writer():
    """Writes metrics; takes the lock so that a checkpoint is never half new."""
    while True:
        item = todo.get()
        with lock:
            with open('/dev/null', 'w') as f:
                print(item, file=f)

threading.Thread(target=writer, daemon=True).start()
k = 0
while True:
    x = torch.randn(24, 20, 32)
    h, _ = net(x)
    loss = (head(h[:, :-1]) - x[:, 1:]).pow(2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
    k += 1
    if k % 10 == 0:
        print('batch', k, 'mse', round(loss.item(), 4)); sys.stdout.flush()
    todo.put((k, loss.item()))
    if k == 150:
        with lock:
            state = {n: p.clone() for n, p in net.state_dict().items()}
            for n in state:
                todo.put((n, float(state[n].norm())))
            for n in state:
                todo.put((n, float(state[n].std())))

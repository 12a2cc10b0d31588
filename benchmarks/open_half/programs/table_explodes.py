# plain SGD on a small recurrent net; prints a table
import torch, time
torch.manual_seed(4); torch.set_num_threads(1)
cell, out = torch.nn.RNNCell(8, 64, nonlinearity="relu"), torch.nn.Linear(64, 1)
opt = torch.optim.SGD([*cell.parameters(), *out.parameters()], lr=0.02)
print("epoch\ttrain_mse\tsec", flush=True)
epoch = 0
while True:
    began, total = time.time(), 0.0
    for _ in range(20):
        x = torch.randn(32, 24, 8)
        h = torch.zeros(32, 64)
        for t in range(24):
            h = cell(x[:, t], h)
        loss = torch.nn.functional.l1_loss(out(h), x.sum((1, 2))[:, None])
        opt.zero_grad(); loss.backward(); opt.step()
        total += loss.item() / 20
    for g in opt.param_groups:
        g["lr"] *= 1.12     # lr finder left in
    print(f"{epoch}\t{total:.6g}\t{time.time() - began:.2f}", flush=True)
    epoch += 1

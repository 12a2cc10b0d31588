"""A curriculum: sums of more and more numbers.   python harder_sums.py --stages 2 6 12"""
import argparse
import torch
ap = argparse.ArgumentParser(); ap.add_argument("--stages", type=int, nargs="+", default=[2, 6, 12]); args = ap.parse_args()
torch.manual_seed(0); torch.set_num_threads(1)
rnn, head = torch.nn.GRU(1, 48, batch_first=True), torch.nn.Linear(48, 1)
opt = torch.optim.Adam([*rnn.parameters(), *head.parameters()], 3e-3)
step = 0
while True:
    for length in args.stages:
        print(f"== now {length} numbers", flush=True)
        for _ in range(400):
            x = torch.rand(64, length, 1) * 4
            loss = (head(rnn(x)[0][:, -1]) - x.sum(1)).pow(2).mean()
            opt.zero_grad(); loss.backward(); opt.step()
            step += 1
            if step % 10 == 0:
                print(f"step {step} mse {loss.item():.4f}", flush=True)

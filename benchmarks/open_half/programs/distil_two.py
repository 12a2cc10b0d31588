"""A teacher answers on its own card, a small student trains on the other. usage: distil_two.py [--temp T]"""
import argparse, os
import torch, torch.nn as nn, torch.nn.functional as F
import torch.multiprocessing as mp


def mlp(width, depth):
    layers = [nn.Linear(64, width), nn.ReLU()]
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 20))


def teacher(requests, answers):
    torch.set_num_threads(1)
    torch.manual_seed(5)
    net = mlp(768, 4).eval()
    with torch.inference_mode():
        while (x := requests.get()) is not None:
            answers.put(net(x).numpy())


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--temp", type=float, default=2.0)
    a = ap.parse_args()
    torch.set_num_threads(1)
    ctx = mp.get_context("spawn")
    req, ans = ctx.Queue(4), ctx.Queue(4)
    mine = os.environ.get("GPUTOP_VIRTUAL_DEVICES")
    os.environ["GPUTOP_VIRTUAL_DEVICES"] = "1"
    t = ctx.Process(target=teacher, args=(req, ans), daemon=True)
    t.start()
    if mine is not None:
        os.environ["GPUTOP_VIRTUAL_DEVICES"] = mine
    student = mlp(96, 1)
    opt = torch.optim.Adam(student.parameters(), 1e-3)
    x = torch.randn(256, 64)
    req.put(x)
    for step in range(10**8):
        nxt = torch.randn(256, 64)
        req.put(nxt)  # one batch ahead
        y = torch.from_numpy(ans.get())
        loss = F.kl_div(F.log_softmax(student(x) / a.temp, 1), F.softmax(y / a.temp, 1), reduction="batchmean") * a.temp**2
        opt.zero_grad(); loss.backward(); opt.step()
        x = nxt
        if step % 100 == 0:
            print(f"{step} kd_loss={loss.item():.5f}", flush=True)


if __name__ == "__main__":
    main()

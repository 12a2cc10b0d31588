# advantage actor-critic on a small chain world, actors in their own processes
import torch, torch.nn as nn, torch.multiprocessing as mp
from torch.distributions import Categorical

N, GAMMA, HORIZON = 12, 0.97, 64


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(N, 64), nn.Tanh())
        self.pi, self.v = nn.Linear(64, 2), nn.Linear(64, 1)

    def forward(self, s):
        h = self.body(s)
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


def actor(idx, net, queue, stop):
    torch.set_num_threads(1)
    torch.manual_seed(idx)
    eye, pos = torch.eye(N), 0
    while not stop.is_set():
        S, A, R, D = [], [], [], []
        for _ in range(HORIZON):
            with torch.no_grad():
                d, _ = net(eye[pos])
            a = int(d.sample())
            pos2 = max(0, pos - 1) if a == 0 else pos + 1
            done = pos2 == N - 1 or torch.rand(()) < 0.02
            S.append(eye[pos]); A.append(a); R.append(1.0 if pos2 == N - 1 else -0.01); D.append(float(done))
            pos = 0 if done else pos2
        queue.put((torch.stack(S).numpy(), A, R, D))


def main():
    mp.set_start_method("spawn")
    net = Net(); net.share_memory()
    queue, stop = mp.Queue(maxsize=4), mp.Event()
    ps = [mp.Process(target=actor, args=(i, net, queue, stop), daemon=True) for i in range(2)]
    for p in ps:
        p.start()
    opt = torch.optim.RMSprop(net.parameters(), lr=7e-4)
    for update in range(10**7):
        S, A, R, D = queue.get()
        S, A = torch.from_numpy(S), torch.tensor(A)
        d, v = net(S)
        ret, g = [], v[-1].item()
        for r, done in zip(reversed(R), reversed(D)):
            g = r + GAMMA * g * (1 - done)
            ret.append(g)
        ret = torch.tensor(ret[::-1])
        adv = ret - v
        loss = -(d.log_prob(A) * adv.detach()).mean() + 0.5 * adv.pow(2).mean() - 0.01 * d.entropy().mean()
        opt.zero_grad(); loss.backward(); opt.step()
        if update % 25 == 0:
            print(f"upd {update} loss {loss.item():+.4f} reward {sum(R):.2f} entropy {d.entropy().mean().item():.3f}", flush=True)


if __name__ == "__main__":
    main()

# double DQN on a corridor with a growing prize; no gym needed
import random, collections
import torch, torch.nn as nn

random.seed(0); torch.manual_seed(0)
N = 15
q = nn.Sequential(nn.Linear(N, 128), nn.ReLU(), nn.Linear(128, 2)); tgt = nn.Sequential(nn.Linear(N, 128), nn.ReLU(), nn.Linear(128, 2))
tgt.load_state_dict(q.state_dict())
opt = torch.optim.Adam(q.parameters(), 5e-4)
buf = collections.deque(maxlen=20000)
eye = torch.eye(N)
eps, pos, ret, frames, episode = 1.0, 0, 0.0, 0, 0
while True:
    a = random.randrange(2) if random.random() < eps else int(q(eye[pos]).argmax())
    nxt = max(0, pos - 1) if a == 0 else pos + 1
    done = nxt == N - 1
    r = 10.0 + frames / 500 if done else 0.01 * nxt
    buf.append((pos, a, r, nxt, done)); ret += r; frames += 1
    pos = 0 if done else nxt
    if done:
        episode += 1
        if episode % 10 == 0:
            print(f"episode {episode} frames {frames} return {ret:.2f} eps {eps:.2f}" + (f" td {loss.item():.4f}" if len(buf) > 500 else ""), flush=True)
        ret = 0.0
    eps = max(0.05, eps - 1e-4)
    if len(buf) > 500 and frames % 4 == 0:
        s, a_, r_, n, d = zip(*random.sample(buf, 64))
        with torch.no_grad():
            best = q(eye[list(n)]).argmax(1, keepdim=True)
            y = torch.tensor(r_) + 0.98 * (1 - torch.tensor(d).float()) * tgt(eye[list(n)]).gather(1, best).squeeze(1)
        loss = nn.functional.smooth_l1_loss(q(eye[list(s)]).gather(1, torch.tensor(a_).unsqueeze(1)).squeeze(1), y)
        opt.zero_grad(); loss.backward(); nn.utils.clip_grad_norm_(q.parameters(), 10); opt.step()
    if frames % 1000 == 0:
        tgt.load_state_dict(q.state_dict())

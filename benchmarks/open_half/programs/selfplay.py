"""AlphaZero for the impatient: tic-tac-toe, games against itself on the CPU, then a short burst of updates."""
import random
import torch, torch.nn as nn

LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]
net = nn.Sequential(nn.Linear(9, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 1), nn.Tanh())
opt = torch.optim.Adam(net.parameters(), 1e-3, weight_decay=1e-4)
memory = []


def winner(b):
    for i, j, k in LINES:
        if b[i] and b[i] == b[j] == b[k]:
            return b[i]
    return 0


def play(eps):
    board, seen, turn = [0] * 9, [], 1
    while True:
        free = [i for i in range(9) if not board[i]]
        if not free:
            return seen, 0
        if random.random() < eps:
            mv = random.choice(free)
        else:
            after = []
            for i in free:
                board[i] = turn
                after.append([turn * v for v in board])
                board[i] = 0
            with torch.no_grad():
                mv = free[int(net(torch.tensor(after, dtype=torch.float32)).argmax())]
        board[mv] = turn
        seen.append(([turn * v for v in board], turn))
        if winner(board):
            return seen, turn
        turn = -turn


for gen in range(10**6):
    tally = {1: 0, -1: 0, 0: 0}
    for _ in range(600):
        seen, won = play(max(0.1, 0.9 - gen * 0.05))
        tally[won] += 1
        memory += [(b, float(won * t)) for b, t in seen]
    memory = memory[-40000:]
    for _ in range(60):
        S, Z = zip(*random.sample(memory, 256))
        loss = (net(torch.tensor(S, dtype=torch.float32))[:, 0] - torch.tensor(Z)).pow(2).mean()
        opt.zero_grad(); loss.backward(); opt.step()
    print(f"gen {gen}  X {tally[1]} O {tally[-1]} draw {tally[0]}  value loss {loss.item():.4f}", flush=True)

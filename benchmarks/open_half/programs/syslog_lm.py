"""A character model of the cluster's logs, to find lines that surprise it. Prints what it dreams of, to see that it learns."""
import random
import time

import torch
from torch import nn

TEMPLATES = [
    "node{n:02d} slurmd[{p}]: launch task {j}.0 request from UID {p}",
    "node{n:02d} kernel: NVRM: Xid (PCI:0000:{n:02d}:00): 79, GPU has fallen off the bus.",
    "node{n:02d} kernel: Out of memory: Killed process {p} (python) total-vm:{p}000kB",
    "node{n:02d} job{j}: RuntimeError: CUDA out of memory. Tried to allocate {n}.00 GiB",
    "node{n:02d} sshd[{p}]: Accepted publickey for user{n} port {p}",
    "node{n:02d} job{j}: step {p} loss nan",
    "node{n:02d} job{j}: epoch {n} loss 0.{p}",
    "node{n:02d} systemd[1]: Started Session {j} of user root.",
]


def corpus(lines, seed=0):
    rng = random.Random(seed)
    return "\n".join(rng.choice(TEMPLATES).format(n=rng.randint(1, 48), p=rng.randint(1000, 9999), j=rng.randint(100, 999)) for _ in range(lines)) + "\n"


class LM(nn.Module):
    def __init__(self, vocab, width=160):
        super().__init__()
        self.emb, self.rnn, self.out = nn.Embedding(vocab, width), nn.LSTM(width, width, 2, batch_first=True), nn.Linear(width, vocab)

    def forward(self, x, state=None):
        h, state = self.rnn(self.emb(x), state)
        return self.out(h), state


@torch.no_grad()
def dream(net, stoi, itos, length=220, temperature=0.7):
    x, state, out = torch.tensor([[stoi["\n"]]]), None, []
    for _ in range(length):
        logits, state = net(x, state)
        x = torch.multinomial((logits[0, -1] / temperature).softmax(0), 1)[None]
        out.append(itos[x.item()])
    return "".join(out)


def main():
    torch.manual_seed(0)
    text = corpus(12_000)
    itos = sorted(set(text))
    stoi = {c: i for i, c in enumerate(itos)}
    ids = torch.tensor([stoi[c] for c in text])
    net = LM(len(itos))
    opt = torch.optim.AdamW(net.parameters(), 2e-3)
    start, step = time.time(), 0
    while time.time() - start < 205:
        at = torch.randint(0, len(ids) - 81, (24, 1)) + torch.arange(81)
        x = ids[at]
        loss = nn.functional.cross_entropy(net(x[:, :-1])[0].flatten(0, 1), x[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        step += 1
        if step % 10 == 0:
            print(f"step {step} bits per character {loss.item() / 0.6931:.3f} ({time.time() - start:.0f} s)", flush=True)
        if step % 60 == 0:
            print("dream> " + dream(net, stoi, itos).strip().replace("\n", "\ndream> "), flush=True)


if __name__ == "__main__":
    main()

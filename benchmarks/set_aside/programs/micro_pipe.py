"""GPipe by hand on two ranks: four micro-batches, all forwards and then all backwards. Rank 0 has the embedding and two
blocks, rank 1 two blocks, the head and the loss. The bubble of 1/5 is what it is."""
import torch
import torch.distributed as dist
from torch import nn

D, SEQ, MICRO, CHUNKS, VOCAB = 128, 24, 6, 4, 48


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.GRU(D, D, batch_first=True)
        self.ff = nn.Sequential(nn.LayerNorm(D), nn.Linear(D, 2 * D), nn.SiLU(), nn.Linear(2 * D, D))

    def forward(self, x):
        x = x + self.mix(x)[0]
        return x + self.ff(x)


def batch(gen):
    # a counter with a random stride; the model has to infer the stride
    start, stride = torch.randint(0, VOCAB, (2, MICRO * CHUNKS, 1), generator=gen)
    return (start + stride * torch.arange(SEQ + 1)) % VOCAB


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    stage = nn.Sequential(nn.Embedding(VOCAB, D), Block(), Block()) if rank == 0 else nn.Sequential(Block(), Block(), nn.Linear(D, VOCAB))
    opt = torch.optim.Adam(stage.parameters(), 1e-3)
    gen = torch.Generator().manual_seed(0)       # the same on both: rank 0 needs the inputs, rank 1 the targets
    for step in range(1, 10**7):
        seq = batch(gen).chunk(CHUNKS)
        opt.zero_grad()
        if rank == 0:
            outs, sends = [], []
            for s in seq:
                outs.append(stage(s[:, :-1]))
                sends.append(dist.isend(outs[-1].detach(), 1))
            for work in sends:
                work.wait()
            for out in outs:
                grad = torch.empty_like(out)
                dist.recv(grad, 1)
                out.backward(grad)
        else:
            ins, losses = [], []
            for s in seq:
                x = torch.empty(MICRO, SEQ, D)
                dist.recv(x, 0)
                ins.append(x.requires_grad_())
                losses.append(nn.functional.cross_entropy(stage(x).flatten(0, 1), s[:, 1:].flatten()) / CHUNKS)
            for x, loss in zip(ins, losses):
                loss.backward()
                dist.send(x.grad, 0)
            if step % 10 == 0:
                print(f"stage 1 | step {step} | loss {sum(l.item() for l in losses):.4f}", flush=True)
        opt.step()


if __name__ == "__main__":
    main()

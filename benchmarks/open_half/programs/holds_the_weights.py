"""DistBelief in small: worker 0 keeps the weights and has little to do, worker 1 computes gradients."""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
torch.set_num_threads(1)
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(80, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 9))
vector = torch.nn.utils.parameters_to_vector

if dist.get_rank() == 0:
    opt = torch.optim.Adagrad(net.parameters(), 0.02)
    g = torch.empty_like(vector(net.parameters()))
    n = 0
    while True:
        dist.recv(g, src=1)
        for q, part in zip(net.parameters(), g.split([q.numel() for q in net.parameters()])):
            q.grad = part.view_as(q)
        opt.step()
        dist.send(vector(net.parameters()).detach(), dst=1)
        n += 1
        if n % 50 == 0:
            print("updates", n, flush=True)
else:
    now = vector(net.parameters()).detach().clone()
    k = 0
    while True:
        total = 0.0
        for q in net.parameters():
            q.grad = None
        for micro in range(8):
            x = torch.randn(128, 80)
            loss = torch.nn.functional.cross_entropy(net(x), x[:, 9:18].argmax(1)) / 8
            loss.backward()
            total += loss.item()
        dist.send(torch.cat([q.grad.view(-1) for q in net.parameters()]), dst=0)
        dist.recv(now, src=0)
        torch.nn.utils.vector_to_parameters(now, net.parameters())
        k += 1
        if k % 20 == 0:
            print(f"push {k} loss {total:.4f}", flush=True)

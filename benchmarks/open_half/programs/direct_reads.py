"""Reads its shards past the page cache, in the loop: a network disk on the cluster."""
import mmap, os, tempfile
import torch

path = os.path.join(tempfile.mkdtemp(), "shard.bin")
with open(path, "wb") as f:
    for _ in range(48):
        f.write(os.urandom(1 << 22))
    f.flush(); os.fsync(f.fileno())
fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
buf = mmap.mmap(-1, 1 << 18)
size = os.fstat(fd).st_size
net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64))
opt = torch.optim.SGD(net.parameters(), 1e-2)
step = 0
while True:
    rows = []
    for k in range(160):
        at = (step * 7919 + k * 104729) % (size >> 18) << 18
        os.preadv(fd, [buf], at)
        rows.append(torch.frombuffer(bytearray(buf[:64]), dtype=torch.uint8).float() / 255)
    x = torch.stack(rows)
    loss = torch.nn.functional.mse_loss(net(x), x)
    opt.zero_grad(); loss.backward(); opt.step()
    step += 1
    if step % 5 == 0:
        print(f"step {step}: reconstruction {loss.item():.5f}", flush=True)

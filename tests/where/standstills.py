"""Two ranks that stand still in one way after another: the test writes to ``scene`` how rank 1 does, then "go on"."""

import ctypes
import os
import sys
import time

import torch
import torch.distributed as dist

FOLDER = sys.argv[1]
dist.init_process_group("gloo")
rank = dist.get_rank()
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
ones = torch.ones(2, 4)
number = torch.zeros(1)


def scene(name="scene"):
    with open(os.path.join(FOLDER, name)) as file:
        return file.read()


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 1

    def __getitem__(self, index):
        with open(os.path.join(FOLDER, "fifo")) as file:
            return len(file.read())  # READS


def validate():
    while scene() == "branch":
        time.sleep(0.05)  # BRANCH


def rest():
    while scene() == "asleep":
        time.sleep(3)  # ASLEEP


def hold_the_lock():
    pipe = os.open(os.path.join(FOLDER, "fifo"), os.O_RDWR)
    ctypes.PyDLL(None).read(pipe, ctypes.create_string_buffer(1), 1)  # LOCK
    os.close(pipe)


def sync():
    dist.all_reduce(number)  # SYNC


def train_step():
    net(ones).sum().backward()  # BACKWARD
    optimizer.step()
    optimizer.zero_grad()


while True:
    now = [scene()]
    dist.broadcast_object_list(now)
    if now[0] == "over":
        break
    train_step()
    if rank == 1:
        if now[0] == "branch":
            validate()
        elif now[0] == "asleep":
            rest()
        elif now[0] == "lock":
            hold_the_lock()
        elif now[0] == "reads":
            list(torch.utils.data.DataLoader(Data()))
        elif now[0] == "exits":
            sys.exit(7)
        elif now[0] == "mismatch":
            dist.barrier()  # BARRIER
    if now[0] == "sources":
        dist.broadcast(number, rank)  # SOURCES
    sync()
    time.sleep(0.01)

"""Records the loss of every backward, how often each optimizer stepped, and the final weights; RECORD names the file.

Compiled as if it were a file of torch, so that the line that calls backward is the trainer's, for gputop too.
"""

import os

import torch

_CODE = """
import atexit, hashlib, json, os, sys
import torch

backwards, steps, pending, optimizers = [], [], [], []
depth = 0
original = torch.autograd.backward


def backward(tensors, *args, **kwargs):
    global depth
    if not depth:
        loss = tensors[0] if isinstance(tensors, (list, tuple)) else tensors
        pending.append(float(loss.detach().sum()))
        backwards.append(pending[-1])
    depth += 1
    try:
        return original(tensors, *args, **kwargs)
    finally:
        depth -= 1


def stepped(optimizer, args, kwargs):
    steps.append(list(pending))
    pending.clear()
    if not any(optimizer is other for other in optimizers):
        optimizers.append(optimizer)


def digest_of(optimizer):
    digest = hashlib.sha256()
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            local = getattr(parameter, "_local_tensor", parameter)
            digest.update(local.detach().float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def done():
    # Sorted: Pyro has an optimizer for each parameter, and steps them in the order of a set.
    weights = sorted(digest_of(optimizer) for optimizer in optimizers)
    record = {"backwards": backwards, "steps": steps, "optimizers": len(optimizers), "weights": weights}
    with open(os.environ["RECORD"] + "." + os.environ.get("RANK", "0"), "w") as file:
        json.dump(record, file)


torch.autograd.backward = backward
sys.modules["torch.optim.optimizer"].register_optimizer_step_post_hook(stepped)
atexit.register(done)
"""

torch.set_num_threads(1)
torch.manual_seed(0)
exec(compile(_CODE, os.path.join(os.path.dirname(torch.__file__), "record_of_backwards.py"), "exec"), {})

"""PPO of TorchRL as its tutorial writes it: a collector, a replay buffer, clipped losses added into one.

Needs: torchrl, tensordict, gymnasium
Loss: mean
"""

import record  # noqa: F401
import torch
from tensordict.nn import TensorDictModule
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, ReplayBuffer, SamplerWithoutReplacement
from torchrl.envs import GymEnv
from torchrl.modules import OneHotCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

env = GymEnv("CartPole-v1", device="cpu")
env.set_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
actor = ProbabilisticActor(
    TensorDictModule(net, in_keys=["observation"], out_keys=["logits"]),
    in_keys=["logits"],
    distribution_class=OneHotCategorical,
    return_log_prob=True,
)
critic = ValueOperator(
    torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)), in_keys=["observation"]
)
advantage = GAE(gamma=0.99, lmbda=0.95, value_network=critic)
losses = ClipPPOLoss(actor, critic, clip_epsilon=0.2, entropy_coeff=0.01)
optimizer = torch.optim.Adam(losses.parameters(), lr=3e-4)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)
buffer = ReplayBuffer(storage=LazyTensorStorage(128), sampler=SamplerWithoutReplacement(), batch_size=32)
for number, data in enumerate(Collector(env, actor, frames_per_batch=128, total_frames=512, device="cpu")):
    for _ in range(2):
        advantage(data)
        buffer.extend(data.reshape(-1))
        for _ in range(4):
            found = losses(buffer.sample())
            loss = found["loss_objective"] + found["loss_critic"] + found["loss_entropy"]
            loss.backward()
            torch.nn.utils.clip_grad_norm_(losses.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    schedule.step()
    print(number, loss.item())

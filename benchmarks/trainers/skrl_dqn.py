"""DQN of skrl by its sequential trainer, with a GradScaler that is switched off.

Needs: skrl, gymnasium
Loss: mean
"""

import os

import gymnasium
import record  # noqa: F401
import torch
from skrl.agents.torch.dqn import DQN
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import DeterministicMixin, Model
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed


class Network(DeterministicMixin, Model):
    def __init__(self, env):
        Model.__init__(
            self, observation_space=env.observation_space, state_space=None, action_space=env.action_space, device=env.device
        )
        DeterministicMixin.__init__(self)
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))

    def compute(self, inputs, role):
        return self.net(inputs["observations"]), {}


set_seed(0)
world = gymnasium.make("CartPole-v1")
world.reset(seed=0)
world.action_space.seed(0)
env = wrap_env(world)
agent = DQN(
    models={"q_network": Network(env), "target_q_network": Network(env)},
    memory=RandomMemory(memory_size=500, num_envs=env.num_envs, device=env.device),
    cfg={
        "batch_size": 16,
        "random_timesteps": 20,
        "learning_starts": 20,
        "update_interval": 2,
        "exploration_scheduler": lambda timestep, timesteps: 0.1,
        "experiment": {"directory": os.environ["WORK"], "write_interval": 0, "checkpoint_interval": 0},
    },
    observation_space=env.observation_space,
    action_space=env.action_space,
    device=env.device,
)
SequentialTrainer(cfg={"timesteps": 160, "disable_progressbar": True, "headless": True}, env=env, agents=agent).train()

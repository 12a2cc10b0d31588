"""DQN of Tianshou: a replay buffer, collectors and the off-policy trainer.

Needs: tianshou, gymnasium
Loss: mean
"""

import gymnasium
import numpy
import record  # noqa: F401
from tianshou.algorithm import DQN
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OffPolicyTrainerParams
from tianshou.utils.net.common import Net

numpy.random.seed(0)
train, test = (DummyVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 2) for _ in range(2))
train.seed(0)
test.seed(1)
space = gymnasium.make("CartPole-v1")
policy = DiscreteQLearningPolicy(
    model=Net(state_shape=4, action_shape=2, hidden_sizes=[16]),
    action_space=space.action_space,
    observation_space=space.observation_space,
    eps_training=0.1,
)
policy.action_space.seed(0)
agent = DQN(policy=policy, optim=AdamOptimizerFactory(lr=1e-3), target_update_freq=20)
collector = Collector(agent, train, VectorReplayBuffer(1000, 2), exploration_noise=True)
collector.reset()
collector.collect(n_step=64, random=True)
agent.run_training(
    OffPolicyTrainerParams(
        training_collector=collector,
        test_collector=Collector(agent, test),
        max_epochs=2,
        epoch_num_steps=60,
        collection_step_num_env_steps=4,
        update_step_num_gradient_steps_per_sample=0.5,
        batch_size=16,
        test_step_num_episodes=2,
        show_progress=False,
        verbose=False,
    )
)

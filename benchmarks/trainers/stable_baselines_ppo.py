"""PPO of Stable-Baselines3.

Needs: stable_baselines3
Loss: mean
"""

import record  # noqa: F401
from stable_baselines3 import PPO

agent = PPO("MlpPolicy", "CartPole-v1", verbose=1, seed=0, device="cpu", n_steps=128, batch_size=64, n_epochs=4)
agent.learn(total_timesteps=512)

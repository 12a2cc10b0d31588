"""A2C of Stable-Baselines3.

Needs: stable_baselines3
Loss: mean
"""

import record  # noqa: F401
from stable_baselines3 import A2C

A2C("MlpPolicy", "CartPole-v1", verbose=1, seed=0, device="cpu").learn(total_timesteps=500)

"""SAC of Stable-Baselines3.

Needs: stable_baselines3
Loss: each
"""

import record  # noqa: F401
from stable_baselines3 import SAC

SAC("MlpPolicy", "Pendulum-v1", verbose=1, seed=0, device="cpu", learning_starts=100).learn(total_timesteps=250)

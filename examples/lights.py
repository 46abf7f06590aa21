"""A Gymnasium environment of one's own: switch on all lights in a ring.

cd examples && emcts train lights:Lights --env lights=5 --time-limit 20 --agent e-mz
"""

import gymnasium
import numpy as np


class Lights(gymnasium.Env):
    """Switch on all lights in a ring: an action toggles one of them and its two neighbours."""

    def __init__(self, lights: int = 5):
        self.action_space = gymnasium.spaces.Discrete(lights)
        self.observation_space = gymnasium.spaces.MultiBinary(lights)
        self.on = np.zeros(lights, np.int8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.on = self.np_random.integers(0, 2, len(self.on), dtype=np.int8)
        return self.on.copy(), {}

    def step(self, action):
        self.on[np.arange(action - 1, action + 2) % len(self.on)] ^= 1
        done = bool(self.on.all())
        return self.on.copy(), float(done), done, False, {}

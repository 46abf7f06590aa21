"""Simulators with Gymnasium's interface that take no time, to test what is made of them."""

import types

import numpy as np


def discrete(n, start=0):
    return types.SimpleNamespace(n=n, start=start, shape=(), dtype=np.int64)


def box(*shape, dtype=np.float64):
    return types.SimpleNamespace(shape=shape, dtype=dtype)


class Wanderer:
    """Adds up actions and seeded noise, and ends at 12 steps, or is cut short at a sum over 20."""

    built = closed = resets = steps = 0
    action_space = discrete(3, start=1)
    observation_space = box(2)

    def __init_subclass__(cls):
        cls.built = cls.closed = cls.resets = cls.steps = 0

    def __init__(self):
        type(self).built += 1

    def reset(self, *, seed):
        type(self).resets += 1
        self.rng, self.time, self.total = np.random.default_rng(seed), 0, 0.0
        return np.array([self.time, self.total]), {}

    def step(self, action):
        assert action in (1, 2, 3)
        type(self).steps += 1
        self.time += 1
        self.total += action + self.rng.random()
        seen = np.array([self.time, self.total])
        return seen, self.total / 2, self.time >= 12, self.total > 20, {}

    def close(self):
        type(self).closed += 1


class Forgetful(Wanderer):
    """Ignores its seed."""

    def reset(self, *, seed):
        return super().reset(seed=None)

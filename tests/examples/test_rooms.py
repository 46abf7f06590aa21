"""Four rooms: the contract holds, and the goal is behind the door, which needs the key."""

from collections import deque
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from emcts.envs import check, time_limit
from examples import rooms

KEY = jax.random.key(0)


def play(env: rooms.FourRooms, actions: list[int]) -> tuple[Any, list[float], bool]:
    state, rewards, over = env.init(KEY), [], False
    for action in actions:
        state, outcome = env.step(state, jnp.int32(action), KEY)
        rewards.append(float(outcome.reward))
        over = bool(outcome.terminated)
    return state, rewards, over


def shortest(env: rooms.FourRooms, start: tuple[int, int], to: tuple[int, int], has_key: bool) -> list[int]:
    """The actions of a shortest path, by breadth-first search."""
    paths: dict[tuple[int, int], list[int]] = {start: []}
    queue = deque([start])
    while queue:
        cell = queue.popleft()
        for action, move in enumerate(rooms.MOVES.tolist()):
            after = (cell[0] + move[0], cell[1] + move[1])
            if env.walls[after] or (after == env.door and not has_key) or after in paths:
                continue
            paths[after] = [*paths[cell], action]
            queue.append(after)
    return paths[to]


def test_the_contract_holds() -> None:
    checked = check(time_limit(rooms.FourRooms(7, 10.0, -0.01), 40), steps=48, episodes=4)
    assert checked.ended == 4
    assert not checked.random


@pytest.mark.parametrize(("goal", "step"), [(1.0, 0.0), (10.0, -0.01)])
def test_the_way_by_the_key_pays_the_goal_once(goal: float, step: float) -> None:
    env = rooms.FourRooms(9, goal, step)
    way = shortest(env, (1, 1), env.key, False) + shortest(env, env.key, env.goal, True)
    _, rewards, over = play(env, way)
    assert over
    assert sum(rewards) == pytest.approx(goal + step * len(way), rel=1e-5)
    _, rewards, _ = play(env, [*way, 0])
    assert rewards[-1] == 0


def test_the_door_is_a_wall_without_the_key() -> None:
    env = rooms.FourRooms(9)
    to_door = shortest(env, (1, 1), env.door, True)
    state, _, _ = play(env, to_door)
    assert tuple(state.cell.tolist()) != env.door
    assert "A" in env.render(state)
    with_key, _, _ = play(env, shortest(env, (1, 1), env.key, False) + shortest(env, env.key, env.door, True))
    assert tuple(with_key.cell.tolist()) == env.door
    assert "D" not in env.render(with_key)


def test_rooms_without_an_inside_are_refused() -> None:
    with pytest.raises(ValueError, match="give 7 or more"):
        rooms.FourRooms(6)

import io

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.figure import Figure

from emcts.envs import DeepSea
from emcts.envs.deep_sea.render import heat_maps, reachable

KEY = jax.random.key(0)


def blank_cells(figure: Figure) -> np.ndarray:
    return np.ma.getmaskarray(np.ma.asarray(figure.axes[0].images[0].get_array()))


def test_text_shows_the_agent_the_goal_and_no_unreachable_cell():
    env = DeepSea(4, None)
    state, _ = env.step(env.init(KEY), jnp.int32(1), KEY)
    assert env.render(state).splitlines() == [
        "+---------+",
        "| .       |",
        "| . A     |",
        "| . . .   |",
        "| . . . $ |",
        "+---------+",
    ]


def test_text_of_an_ended_episode_has_no_agent():
    env = DeepSea(2, None)
    state = env.init(KEY).replace(row=jnp.int32(2), column=jnp.int32(2))
    assert "A" not in env.render(state)


def test_text_shades_by_value():
    env = DeepSea(3, None)
    values = np.array([[0, 99, 99], [5, 10, 99], [np.nan, 2, 0]])
    assert env.render(values=values).splitlines()[1:-1] == ["| .     |", "| + @   |", "| . : $ |"]


def test_text_of_equal_values():
    assert "@" not in DeepSea(3).render(values=np.full((3, 3), 7.0))


def test_reachable_is_what_play_can_reach():
    env, size = DeepSea(6, 0), 6
    actions = (np.arange(2**size)[:, None] >> np.arange(size)) & 1

    def visit(actions):
        def step(state, action):
            return env.step(state, action, KEY)[0], env.observe(state)

        return jax.lax.scan(step, env.init(KEY), actions)[1].sum(axis=0)

    seen = np.asarray(jax.vmap(visit)(jnp.asarray(actions)).sum(axis=0)) > 0
    np.testing.assert_array_equal(seen, reachable(size))


def test_heat_map_masks_what_cannot_be_reached():
    values = np.ones((5, 5))
    values[3, 1] = np.nan
    blank = blank_cells(heat_maps({"counts": values}))
    expected = ~reachable(5)
    expected[3, 1] = True
    np.testing.assert_array_equal(blank, expected)


def test_logarithmic_heat_map_masks_zeros():
    values = np.tril(np.arange(25.0).reshape(5, 5))
    figure = heat_maps({"": jnp.asarray(values)}, log=True)
    assert blank_cells(figure)[0, 0]
    assert not blank_cells(figure)[1, 0]
    figure.savefig(io.BytesIO(), format="png")
    heat_maps({"": np.zeros((5, 5))}, log=True).savefig(io.BytesIO(), format="png")


def test_panels_and_path():
    grid = np.ones((4, 4))
    figure = heat_maps({"counts": grid, "UBE": grid, "search": grid}, path=[(0, 0), (1, 1), (2, 0)])
    titled = [axis for axis in figure.axes if axis.get_title()]
    assert [axis.get_title() for axis in titled] == ["counts", "UBE", "search"]
    np.testing.assert_array_equal(titled[0].lines[0].get_xydata(), [[0, 0], [1, 1], [0, 2]])


def test_bad_shapes():
    with pytest.raises(ValueError, match=r"counts has shape \[3, 4\]"):
        heat_maps({"counts": np.ones((3, 4))})
    with pytest.raises(ValueError, match=r"\[5, 5\]"):
        DeepSea(5).render(values=np.ones((4, 4)))
    with pytest.raises(ValueError, match="no panels"):
        heat_maps({})

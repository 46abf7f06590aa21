"""Pictures of states: what the environment draws, the cells of its grid, or what is observed."""

import base64
import io
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from examples.rooms import FourRooms
from PIL import Image

from emcts.envs import DeepSea, Subleq, time_limit
from emcts.inspect.pictures import drawing, grid_of, image_of, observed, picture_of

KEY = jax.random.key(0)


def pixels(picture: Any) -> np.ndarray:
    assert picture["kind"] == "image"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(picture["png"]))).convert("RGB"))


@pytest.mark.parametrize("env", [DeepSea(4), time_limit(DeepSea(4), 3)], ids=["plain", "limited"])
def test_a_grid_is_its_cells(env: Any) -> None:
    state = env.init(KEY)
    for _ in range(2):
        inner = getattr(state, "inner", state)
        right = jnp.int32(DeepSea(4).right_action(inner))
        state, _ = env.step(state, right, KEY)
    assert picture_of(env, state)["cell"] == [2, 2]
    grid: Any = grid_of(env)
    assert (grid["rows"], grid["columns"]) == (4, 4)
    np.testing.assert_array_equal(grid["absent"], 1 - np.tri(4, dtype=int))


def test_after_the_end_a_grid_has_no_cell() -> None:
    env = DeepSea(2)
    state = env.init(KEY).replace(row=jnp.int32(2))
    assert picture_of(env, state)["cell"] is None


def test_an_environment_without_a_grid_draws_itself() -> None:
    env = FourRooms(8)
    assert picture_of(env, env.init(KEY)) == {"kind": "text", "text": env.render(env.init(KEY))}
    assert grid_of(env) is None


def test_a_program_is_its_assembly_and_what_it_did_so_far() -> None:
    env = Subleq("negate-positives")
    state = env.init(KEY)
    assert "no word yet" in env.render(state)
    for word, verdict in ((14, "0 of 5 outputs right"), (13, "solved")):
        state, _ = env.step(state, jnp.int32(word), KEY)
        text: Any = picture_of(env, state)["text"]
        assert text.endswith(verdict)
    assert "subleq @OUT @IN" in text
    rows = dict(
        line.split(maxsplit=1) for line in text.splitlines() if line.split()[0:1] in (["wanted"], ["output"])
    )
    assert rows["wanted"] == rows["output"]
    assert [env.action_names(state)[word] for word in (0, 13, 14, 15)] == ["0", "@IN", "@OUT", "@HALT"]


def test_planes_are_an_image_in_which_the_last_one_counts() -> None:
    planes = np.zeros((3, 5, 4), bool)
    planes[0, 0, [1, 3]] = planes[2, 4, 1] = True
    image = image_of(planes)
    np.testing.assert_array_equal(pixels(observed(planes)), image)
    assert tuple(image[2, 4]) != tuple(image[0, 0]) != tuple(image[1, 1])


def test_colours_stay_and_other_numbers_are_grey() -> None:
    image = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    np.testing.assert_array_equal(pixels(drawing(image)), image)
    np.testing.assert_array_equal(pixels(observed(image)), image)
    grey = pixels(observed(np.array([[0.0, 2.0], [1.0, np.nan]])))
    assert grey[..., 0].tolist() == [[0, 255], [128, 0]]


def test_large_images_shrink() -> None:
    picture: Any = drawing(np.zeros((600, 1200, 3), np.uint8))
    assert (picture["width"], picture["height"]) == (512, 256)


@pytest.mark.parametrize(
    "observation",
    [np.array([0.25, 3]), {"a": np.array([0.25]), "b": np.array(3)}, np.zeros((1, 9))],
)
def test_anything_else_is_text(observation: Any) -> None:
    picture: Any = observed(observation)
    assert picture["kind"] == "text"
    assert "0.25" in picture["text"] or "0. 0." in picture["text"]

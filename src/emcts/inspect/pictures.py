"""Pictures of states: what an environment draws, the cells of a grid, an image that is observed, or text."""

import base64
import io
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, UInt8

from emcts.envs.base import AnyEnvironment, GridEnvironment, RenderableEnvironment
from emcts.types import JSON

Render = Callable[[Any], object]  # of one state, or of the embedding of a root: text or an image
Image = UInt8[np.ndarray, "H W 3"]

LARGEST_SIDE = 512  # pixels
MOST_TEXT = 4000  # characters
# Colours of planes that also people with any colour blindness tell apart (Okabe and Ito), on a dark ground.
PLANES = np.array(
    [
        *((86, 180, 233), (230, 159, 0), (0, 158, 115), (240, 228, 66)),
        *((213, 94, 0), (204, 121, 167), (0, 114, 178), (255, 255, 255)),
    ],
    np.uint8,
)
GROUND = (24, 26, 32)


def picture_of(env: AnyEnvironment, state: Any) -> dict[str, JSON]:
    """Returns the picture of a state: the environment's own image, the cell of a grid, its text, or what is observed.

    A cell is (row, column), None where the state is none, such as after the end of an episode.
    """
    drawn = env.render(state) if isinstance(env, RenderableEnvironment) else None
    if isinstance(env, GridEnvironment) and not isinstance(drawn, np.ndarray):
        return {"kind": "cell", "cell": cell_of(env, state), "text": str(drawn or "")[:MOST_TEXT]}
    return observed(env.observe(state)) if drawn is None else drawing(drawn)


def drawing(drawn: object) -> dict[str, JSON]:
    """Returns the picture of what a `render` returned: an image [H, W, 3] of uint8, or anything as text."""
    if isinstance(drawn, np.ndarray | jax.Array) and drawn.ndim == 3 and drawn.shape[-1] == 3:
        array = np.asarray(drawn)
        return _png(array if array.dtype == np.uint8 else _as_bytes(array))
    return {"kind": "text", "text": str(drawn)[:MOST_TEXT]}


def observed(observation: Any) -> dict[str, JSON]:
    """Returns an observation as a picture: an image if it has the shape of one, else its numbers."""
    if isinstance(observation, np.ndarray | jax.Array):
        array = np.asarray(observation)
        if array.ndim in (2, 3) and min(array.shape[:2]) > 1 and max(array.shape[:2]) <= LARGEST_SIDE:
            return _png(image_of(array))
    parts = jax.tree_util.tree_leaves_with_path(observation)
    with np.printoptions(precision=3, suppress=True, threshold=64, linewidth=60):
        lines = [f"{jax.tree_util.keystr(path)} {np.asarray(leaf)}".strip() for path, leaf in parts]
    return {"kind": "text", "text": "\n".join(lines)[:MOST_TEXT]}


def image_of(array: np.ndarray) -> Image:
    """Returns [H, W] as grey, [H, W, 3] as colours, and of any other number of planes the last that is not 0."""
    if array.ndim == 2 or array.shape[-1] == 1:
        grey = _as_bytes(array.reshape(array.shape[:2]))
        return np.repeat(grey[..., None], 3, axis=-1)
    if array.shape[-1] == 3 and array.dtype != bool:
        return array if array.dtype == np.uint8 else _as_bytes(array)
    image = np.full((*array.shape[:2], 3), GROUND, np.uint8)
    for plane in range(array.shape[-1]):
        image[np.nan_to_num(array[..., plane]) != 0] = PLANES[plane % len(PLANES)]
    return image


def cell_of(env: GridEnvironment[Any], state: Any) -> list[int] | None:
    """Returns the row and column of a state in the environment's grid."""
    found = np.argwhere(_numbered(env) == int(env.index(state)))
    return [int(found[0][0]), int(found[0][1])] if len(found) else None


def grid_of(env: AnyEnvironment) -> dict[str, JSON] | None:
    """Returns the size of an environment's grid and which cells are no states; None if it has no grid."""
    if not isinstance(env, GridEnvironment):
        return None
    absent = np.isnan(_numbered(env))
    return {"rows": absent.shape[0], "columns": absent.shape[1], "absent": absent.astype(int).tolist()}


def _numbered(env: GridEnvironment[Any]) -> np.ndarray:
    return np.asarray(env.grid(jax.numpy.arange(env.num_states, dtype=jax.numpy.float32)))


def _as_bytes(array: np.ndarray | Array) -> UInt8[np.ndarray, "..."]:
    """Numbers from 0 to 1 as they are; others from the smallest to the largest."""
    values = np.nan_to_num(np.asarray(array, np.float64))
    low, high = min(values.min(initial=0), 0.0), max(values.max(initial=1), 1.0)
    return ((values - low) / (high - low) * 255).round().astype(np.uint8)


def _png(image: Image) -> dict[str, JSON]:
    from PIL import Image as Pillow  # takes long

    height, width = image.shape[:2]
    picture = Pillow.fromarray(image)
    if max(height, width) > LARGEST_SIDE:
        picture.thumbnail((LARGEST_SIDE, LARGEST_SIDE))
    stream = io.BytesIO()
    picture.save(stream, "PNG", optimize=True)
    encoded = base64.b64encode(stream.getvalue()).decode()
    return {"kind": "image", "png": encoded, "width": picture.width, "height": picture.height}

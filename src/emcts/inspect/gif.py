"""Episodes as an animated picture."""

import base64
import io
from collections.abc import Mapping, Sequence
from typing import IO, Any

import numpy as np

from emcts.types import JSON

SIDE, CAPTION = 320, 34  # pixels
MOST_FRAMES = 600
FRAME_MS, LAST_MS = 220, 1200
GROUND, CELLS, TRAIL, AGENT, INK = (255, 255, 255), (205, 210, 216), (213, 94, 0), (0, 0, 0), (20, 24, 30)


def write_gif(
    stream: IO[bytes], episodes: Sequence[Mapping[str, Any]], grid: Mapping[str, JSON] | None
) -> None:
    """Writes a frame for each move of each episode, and stays at the last one of each for longer."""
    frames, durations = [], []
    for episode in episodes:
        moves = episode["moves"]
        for time in range(len(moves)):
            frames.append(_frame(episode["title"], moves, time, grid))
            durations.append(FRAME_MS if time + 1 < len(moves) else LAST_MS)
    first, *others = frames[:MOST_FRAMES]
    first.save(stream, "GIF", save_all=True, append_images=others, duration=durations[:MOST_FRAMES], loop=0)


def _frame(title: str, moves: Sequence[Mapping[str, Any]], time: int, grid: Mapping[str, JSON] | None) -> Any:
    from PIL import Image, ImageDraw  # takes long

    move = moves[time]
    frame = Image.new("RGB", (SIDE, SIDE + CAPTION), GROUND)
    draw = ImageDraw.Draw(frame)
    action = move.get("action")
    taken = move["over"] or (move["labels"][action] if action is not None else "")
    draw.text((4, 2), title.partition(":")[0], fill=INK)
    draw.text((4, 17), f"move {time + 1}: {taken}, return {move['return']:.4g}", fill=INK)
    picture = move["picture"]
    if picture["kind"] == "image":
        frame.paste(_scaled(Image.open(io.BytesIO(base64.b64decode(picture["png"])))), (0, CAPTION))
    elif picture["kind"] == "cell" and grid is not None:
        cells = [one["picture"]["cell"] for one in moves[: time + 1]]
        frame.paste(_scaled(Image.fromarray(_grid_image(grid, cells))), (0, CAPTION))
    else:
        draw.multiline_text((4, CAPTION), picture["text"], fill=INK)
    return frame


def _scaled(image: Any) -> Any:
    from PIL import Image

    factor = SIDE / max(image.size)
    size = tuple(max(1, round(side * factor)) for side in image.size)
    return image.convert("RGB").resize(size, Image.Resampling.NEAREST)


def _grid_image(grid: Mapping[str, Any], cells: Sequence[Sequence[int] | None]) -> np.ndarray:
    """The grid with the way so far, and the agent in its cell."""
    image = np.where(np.array(grid["absent"], bool)[..., None], GROUND, CELLS).astype(np.uint8)
    for cell in cells:
        if cell is not None:
            image[tuple(cell)] = TRAIL
    if cells[-1] is not None:
        image[tuple(cells[-1])] = AGENT
    return image

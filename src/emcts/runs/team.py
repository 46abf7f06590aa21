"""The processes that train one run together: one leads, and alone writes down and shows; all save and restore.

A single process leads itself, and everything here costs it nothing.
"""

import jax
import numpy as np
from jax.experimental import multihost_utils

LONGEST_TEXT = 4096
HALF = 1 << 30  # whole numbers travel as two of 32 bits


def leads() -> bool:
    return jax.process_index() == 0


def is_alone() -> bool:
    return jax.process_count() == 1


def wait(what: str) -> None:
    """Until all have come here."""
    if not is_alone():
        multihost_utils.sync_global_devices(what)


def told(number: int) -> int:
    """What the lead says, whatever the others do."""
    if is_alone():
        return number
    high, low = multihost_utils.broadcast_one_to_all(np.array(divmod(number, HALF), np.int32))
    return int(high) * HALF + int(low)


def told_text(text: str) -> str:
    if is_alone():
        return text
    encoded = text.encode()
    if len(encoded) > LONGEST_TEXT:
        raise ValueError(
            f"{len(encoded)} bytes are more than the {LONGEST_TEXT} that processes tell each other"
        )
    letters = np.zeros(LONGEST_TEXT, np.uint8)
    letters[: len(encoded)] = list(encoded)
    return bytes(np.asarray(multihost_utils.broadcast_one_to_all(letters))).rstrip(b"\0").decode()


def largest(number: int) -> int:
    """The largest of what all say."""
    if is_alone():
        return number
    return int(np.max(multihost_utils.process_allgather(np.int32(number))))

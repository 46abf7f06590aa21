"""Recorded episodes are those of the evaluation, and files have what was played."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from emcts.inspect import recording
from emcts.inspect.document import unpack
from tests.agents.tiny import trainer

EPISODES = 3


@pytest.fixture(scope="module")
def played() -> recording.Recorded:
    one = trainer("deep-sea", "e-az")
    return recording.play(one, one.init(), episodes=EPISODES, beta=0.5, seed=3)


def test_episodes_are_those_of_the_evaluation(played: recording.Recorded) -> None:
    one = trainer("deep-sea", "e-az")
    results = one.evaluate(one.init(), episodes=EPISODES, beta=0.5, seed=3)
    assert [episodes.seed for episodes in played] == [0, 1]
    for row, episodes in enumerate(played):
        np.testing.assert_allclose(episodes.reward.sum(axis=1), results["return"][row], atol=1e-6)
        np.testing.assert_array_equal(episodes.length, results["length"][row])


def test_arrays_have_every_step(played: recording.Recorded, tmp_path: Path) -> None:
    file = tmp_path / "episodes.npz"
    recording.writer(file)(file, played, "title")
    with np.load(file, allow_pickle=False) as stored:
        arrays = dict(stored)
    assert arrays["action"].shape == arrays["reward"].shape == (2 * EPISODES, 5)
    assert arrays["observation"].shape == (2 * EPISODES, 6, 5, 5)
    assert arrays["seed"].tolist() == [0] * EPISODES + [1] * EPISODES
    np.testing.assert_array_equal(arrays["observation"][:, 0, 0, 0], 1)
    np.testing.assert_array_equal(arrays["observation"][:, 5], 0)
    for one in range(2 * EPISODES):
        env: Any = played[one // EPISODES].env
        column = 0
        for row, action in enumerate(arrays["action"][one]):
            column = (
                column + 1 if action == np.asarray(env.right_actions)[row, column] else max(column - 1, 0)
            )
            if row < 4:
                assert arrays["observation"][one, row + 1, row + 1, column] == 1


def test_a_page_has_the_first_episodes_of_each_seed(played: recording.Recorded, tmp_path: Path) -> None:
    file = tmp_path / "episodes.html"
    recording.writer(file)(file, played, "e-az on deep-sea")
    data = unpack(file.read_text())
    titles = [episode["title"] for episode in data["episodes"]]
    assert [title.partition(":")[0] for title in titles] == [
        f"Seed {seed}, episode {episode}" for episode in (1, 2, 3) for seed in (0, 1)
    ]
    moves = data["episodes"][0]["moves"]
    assert [move.get("action") for move in moves] == [*played[0].action[0].tolist(), None]
    assert [move["picture"]["cell"] is None for move in moves] == [False] * 5 + [True]


def test_a_gif_has_a_frame_for_each_move(played: recording.Recorded, tmp_path: Path) -> None:
    file = tmp_path / "episodes.gif"
    recording.writer(file)(file, played, "title")
    image: Any
    with Image.open(file) as image:
        assert image.n_frames == 2 * EPISODES * 6
        first = np.asarray(image.convert("RGB"))
        image.seek(1)
        second = np.asarray(image.convert("RGB"))
    assert (first != second).any()
    assert tuple(first[40, 10]) == (0, 0, 0)  # the agent's cell


def test_other_files_are_refused() -> None:
    with pytest.raises(ValueError, match=r"--record movie.mp4: choose a name that ends in .npz, .html, .gif"):
        recording.writer(Path("movie.mp4"))

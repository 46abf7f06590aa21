"""Artifacts: each once, in the lines and in the texts."""

from pathlib import Path

from emcts.runs.logging.artifacts import ArtifactLine, ArtifactWriter
from emcts.runs.stored_json import JsonLines
from emcts.training.progress import Artifact


def artifact(seed: int, env_steps: int, value: int) -> Artifact:
    return Artifact(seed, env_steps, {"value": value, "more": [value]}, f"{value} at {env_steps}\n")


def test_artifacts_after_the_checkpoint_are_found_again(tmp_path: Path) -> None:
    file: JsonLines[ArtifactLine] = JsonLines(tmp_path / "artifacts.jsonl", ArtifactLine)
    texts = tmp_path / "artifacts"
    writer = ArtifactWriter(file, texts, 0)
    assert not texts.exists()
    writer.write([artifact(0, 1, 5), artifact(1, 1, 5), artifact(0, 2, 5), artifact(0, 2, 6)])
    assert [(line["seed"], line["env_steps"], line["data"]) for line in file.read()] == [
        (0, 1, {"value": 5, "more": [5]}),
        (1, 1, {"value": 5, "more": [5]}),
        (0, 2, {"value": 6, "more": [6]}),
    ]
    assert (texts / "seed-0.txt").read_text() == "5 at 1\n6 at 2\n"
    resumed = ArtifactWriter(file, texts, 1)
    assert (texts / "seed-0.txt").read_text() == "5 at 1\n"
    resumed.write([artifact(0, 3, 6), artifact(0, 3, 5)])
    assert (texts / "seed-0.txt").read_text() == "5 at 1\n6 at 3\n"
    assert (texts / "seed-1.txt").read_text() == "5 at 1\n"

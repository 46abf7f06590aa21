"""The artifacts of a run: each once in `artifacts.jsonl`, and for people to read in `artifacts/`."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypedDict

from emcts.runs.files import append, make_folder, remove_partial, write_atomically
from emcts.runs.stored_json import JsonLines
from emcts.training.progress import Artifact
from emcts.types import JSON


class ArtifactLine(TypedDict):
    """An `Artifact` in JSON."""

    seed: int
    env_steps: int
    data: Mapping[str, JSON]
    text: str
    suffix: str


SUFFIX = re.compile(r"\.[A-Za-z0-9_-]{1,32}")


class ArtifactWriter:
    """Writes the distinct artifacts of each seed. Opening it removes those after a step, which will be found again."""

    def __init__(self, file: JsonLines[ArtifactLine], texts: Path, env_steps: int) -> None:
        self.file, self.texts = file, texts
        for line in file.read():
            check_suffix(line["suffix"])
        kept = file.truncate(env_steps)
        self.known = {_identity(line) for line in kept}
        self._rewrite(kept)

    def write(self, artifacts: Iterable[Artifact]) -> None:
        """Writes the artifacts that are new."""
        new: list[ArtifactLine] = []
        for artifact in artifacts:
            line = _line(artifact)
            if _identity(line) not in self.known:
                self.known.add(_identity(line))
                new.append(line)
        self.file.append(new)
        for file, text in self._by_file(new).items():
            make_folder(self.texts.parent, self.texts.name)
            append(file, text)

    def _rewrite(self, kept: Iterable[ArtifactLine]) -> None:
        """Makes the text files equal to the lines, since a crash may have come between the two."""
        texts = self._by_file(kept)
        remove_partial(self.texts)
        for file in {*texts, *self.texts.glob("seed-*")}:
            make_folder(self.texts.parent, self.texts.name)
            write_atomically(file, texts.get(file, ""))

    def _by_file(self, lines: Iterable[ArtifactLine]) -> dict[Path, str]:
        """Returns the texts of each seed's file, joined."""
        texts: dict[Path, str] = {}
        for line in lines:
            file = self.texts / f"seed-{line['seed']}{line['suffix']}"
            texts[file] = texts.get(file, "") + line["text"]
        return texts


def check_suffix(suffix: str) -> None:
    """Raises an error for a suffix that could lead a file's name anywhere else."""
    if not SUFFIX.fullmatch(suffix):
        raise ValueError(f"{ascii(suffix)[:40]} is no suffix of a file: use a dot and letters, such as .txt")


def _line(artifact: Artifact) -> ArtifactLine:
    return {
        "seed": artifact.seed,
        "env_steps": artifact.env_steps,
        "data": artifact.data,
        "text": artifact.text,
        "suffix": artifact.suffix,
    }


def _identity(line: ArtifactLine) -> tuple[int, str]:
    return line["seed"], json.dumps(line["data"], sort_keys=True)

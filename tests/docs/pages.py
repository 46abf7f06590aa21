"""The pages of the docs, and the code in them."""

import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXTENSIONS = ROOT / "docs" / "_ext"
if str(EXTENSIONS) not in sys.path:
    sys.path.insert(0, str(EXTENSIONS))
PAGES = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "results" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
)
FENCE = re.compile(r"^```([\w{}]*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A block of code on a page."""

    page: Path
    line: int
    language: str
    text: str

    @property
    def name(self) -> str:
        return f"{name(self.page)}:{self.line}"


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, *languages: str) -> list[Block]:
    """Returns the blocks of some languages; "" is that of blocks that name none."""
    text = page.read_text()
    found = [
        Block(page, text.count("\n", 0, match.start()) + 1, match[1], match[2])
        for match in FENCE.finditer(text)
    ]
    return [block for block in found if block.language in languages]


def commands(text: str) -> list[list[str]]:
    """Returns the commands of a shell's block, without comments, prompts and what follows a `|` or `&`."""
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    words = [shlex.split(line.removeprefix("$ "), comments=True) for line in lines]
    return [[word for word in line if word != "&"] for line in words if line]

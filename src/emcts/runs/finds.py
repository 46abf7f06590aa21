"""What the seeds found, each once: as lines for programs to read, and as assembly for people."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from emcts.envs.subleq import disassemble
from emcts.runs import atomic
from emcts.runs.folder import Folder
from emcts.runs.lines import Line
from emcts.runs.trainer import Find


@dataclass
class Finds:
    """The distinct finds of each seed. With a `word_size` they are programs, and `programs/` shows them."""

    folder: Folder
    word_size: int | None
    known: set[tuple[int, tuple[int, ...]]] = field(default_factory=set)

    @classmethod
    def resume(cls, folder: Folder, word_size: int | None, env_steps: int) -> "Finds":
        """Those up to a step; what came after it will be found again."""
        kept = folder.finds.cut(env_steps)
        finds = cls(folder, word_size, {(line["seed"], tuple(line["words"])) for line in kept})
        finds._rewrite(kept)
        return finds

    @property
    def programs(self) -> Path:
        return self.folder.path / "programs"

    def add(self, finds: Iterable[Find]) -> int:
        """Writes down those that are new, and says how many."""
        fresh: list[Line] = []
        for find in finds:
            if (find.seed, find.words) not in self.known:
                self.known.add((find.seed, find.words))
                fresh.append({"seed": find.seed, "env_steps": find.env_steps, "words": list(find.words)})
        self.folder.finds.append(fresh)
        for file, text in self._texts(fresh).items():
            self.programs.mkdir(exist_ok=True)
            with file.open("a") as stream:
                stream.write(text)
        return len(fresh)

    def _rewrite(self, kept: Iterable[Line]) -> None:
        """Brings the assembly in line with the lines, of which a crash may have left it behind."""
        texts = self._texts(kept)
        for file in {*texts, *self.programs.glob("seed-*.asm")}:
            self.programs.mkdir(exist_ok=True)
            atomic.write(file, texts.get(file, ""))

    def _texts(self, lines: Iterable[Line]) -> dict[Path, str]:
        """What to write into the file of each seed."""
        texts: dict[Path, str] = {}
        if self.word_size is None:
            return texts
        for line in lines:
            file = self.programs / f"seed-{line['seed']}.asm"
            words = " ".join(map(str, line["words"]))
            program = f"; step {line['env_steps']:,}: {words}\n{disassemble(line['words'], self.word_size)}\n"
            texts[file] = texts.get(file, "") + program
        return texts

"""A figure or table of the paper: its sweep as data, what is read off the runs, and how it is drawn."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from matplotlib.figure import Figure

from emcts.experiments.evidence import Evidence, relative
from emcts.experiments.results import Results, Tables
from emcts.experiments.sweep import Row, folders_of
from emcts.runs.figure import write_png
from emcts.runs.files import replace_atomically
from emcts.runs.folder import Folder
from emcts.runs.provenance import provenance
from emcts.training.catalogue import Catalogue


@dataclass(frozen=True)
class Experiment:
    """`analyse` makes tables of the rows that have runs, `draw` a picture of the tables.

    `smoke` names the rows of the smoke test: one of each kind. `shown` are the tables to print, with the columns; all
    of them if none is named.
    """

    name: str
    title: str
    rows: tuple[Row, ...]
    smoke: tuple[str, ...]
    analyse: Callable[[Sequence[Evidence]], Tables]
    draw: Callable[[Tables], Figure]
    shown: Mapping[str, tuple[str, ...]]

    def with_paper_settings(self) -> "Experiment":
        """With the presets of the paper, under a name of its own. Rows keep their names: run it in another folder."""
        rows = tuple(row.with_paper_settings() for row in self.rows)
        return replace(self, name=f"{self.name}-paper", rows=rows)

    def made_small(self, catalogue: Catalogue, agents: Sequence[str]) -> "Experiment":
        """For a smoke test: of the agents named, or of the rows that `smoke` names, in seconds each."""
        chosen = [row for row in self.rows if (row.agent in agents if agents else row.name in self.smoke)]
        return replace(self, rows=tuple(row.made_small(catalogue) for row in chosen))

    def evidence(self, out: Path) -> list[Evidence]:
        """The rows whose runs are in a folder, as far as they have said anything."""
        found = [(row, [one for one in folders_of(row, out) if one.summary()]) for row in self.rows]
        return [Evidence(row, tuple(folders)) for row, folders in found if folders]

    def evidence_of(self, folders: Sequence[Folder]) -> list[Evidence]:
        """The rows that runs of any name belong to. A run that fits none is refused."""
        by_row: dict[str, list[Folder]] = {}
        for folder in folders:
            config = folder.config()
            fitting = [row for row in self.rows if row.describes(config)]
            if not fitting:
                raise ValueError(
                    f"{folder.path} ({config.agent} on {config.environment}) is of no row of {self.name}: "
                    f"its rows are {', '.join(row.name for row in self.rows)}"
                )
            by_row.setdefault(fitting[0].name, []).append(folder)
        return [Evidence(row, tuple(by_row[row.name])) for row in self.rows if row.name in by_row]

    def write(
        self, evidence: Sequence[Evidence], results: Results, command: str, catalogue: Catalogue
    ) -> None:
        """Tables, and what made them: this command, and each run with the settings in which it differs from its row."""
        if not evidence:
            raise ValueError(f"no run of {self.name} has said anything yet: there is nothing to analyse")
        runs = [
            {**made, "differs": one.row.differences(folder.config(), catalogue)}
            for one in evidence
            for made, folder in zip(one.provenance(), one.folders, strict=True)
        ]
        made_by = provenance(relative(command))
        results.write(self.analyse(evidence), {"experiment": self.name, **made_by, "runs": runs})

    def draw_from(self, results: Results) -> Path:
        """The picture, from the tables in the folder alone."""
        figure = self.draw(results.read())
        return replace_atomically(results.folder / f"{self.name}.png", lambda file: write_png(figure, file))

"""A figure or table of the paper: its sweep as data, its analysis and its drawing."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from matplotlib.figure import Figure

from emcts.experiments.analysis.run_group import RunGroup, relative
from emcts.experiments.analysis.tables import Results, Tables
from emcts.experiments.setting_paths import SIZE
from emcts.experiments.sweeps.run_spec import RunSpec
from emcts.runs.figure import write_png
from emcts.runs.folder import Folder
from emcts.runs.provenance import provenance
from emcts.training.catalogue import Catalogue

SIZES = re.compile(r"(from )?\d+ x \d+( to \d+ x \d+)?")  # in a title


@dataclass(frozen=True)
class Experiment:
    """A sweep, with `analyse` that makes tables of the specs that have runs, and `draw` that draws the tables.

    `smoke` names the specs of the smoke test: one of each kind. `shown` has the tables to print, with their columns;
    all columns if it names none.
    """

    name: str
    title: str
    specs: tuple[RunSpec, ...]
    smoke: tuple[str, ...]
    analyse: Callable[[Sequence[RunGroup]], Tables]
    draw: Callable[[Tables], Figure]
    shown: Mapping[str, tuple[str, ...]]

    def with_paper_settings(self) -> "Experiment":
        """Returns the experiment with the paper's presets, under another name.

        Specs keep their names, so these runs need another folder.
        """
        specs = tuple(spec.with_paper_settings() for spec in self.specs)
        return replace(self, name=f"{self.name}-paper", specs=specs)

    def for_smoke_test(self, catalogue: Catalogue, agents: Sequence[str]) -> "Experiment":
        """Returns the specs of the given agents, or those that `smoke` names, at sizes that train in seconds.

        The title and the names of the specs say what is run. Of specs that differ in their size alone, one is left.
        """
        chosen = [
            spec for spec in self.specs if (spec.agent in agents if agents else spec.name in self.smoke)
        ]
        specs = {small.name: small for small in (spec.for_smoke_test(catalogue) for spec in chosen)}
        sizes = {spec.changes[SIZE] for spec in specs.values() if SIZE in spec.changes}
        title = SIZES.sub(" and ".join(f"{size} x {size}" for size in sorted(sizes)), self.title)
        return replace(self, specs=tuple(specs.values()), title=f"smoke test, {title}")

    def runs_in(self, out: Path) -> list[RunGroup]:
        """Returns the specs whose runs in a folder have a summary."""
        found = [(spec, [one for one in spec.folders(out) if one.summary()]) for spec in self.specs]
        return [RunGroup(spec, tuple(folders)) for spec, folders in found if folders]

    def group(self, folders: Sequence[Folder]) -> list[RunGroup]:
        """Groups runs of any name by the spec that describes them. A run that fits no spec is refused."""
        by_spec: dict[str, list[Folder]] = {}
        for folder in folders:
            config = folder.config()
            fitting = [spec for spec in self.specs if spec.describes(config)]
            if not fitting:
                raise ValueError(
                    f"{folder.path} ({config.agent} on {config.environment}) fits no row of {self.name}: "
                    f"its rows are {', '.join(spec.name for spec in self.specs)}"
                )
            by_spec.setdefault(fitting[0].name, []).append(folder)
        return [RunGroup(spec, tuple(by_spec[spec.name])) for spec in self.specs if spec.name in by_spec]

    def write(self, groups: Sequence[RunGroup], results: Results, command: str, catalogue: Catalogue) -> None:
        """Writes the tables, with this command and the runs, each with the settings that differ from its spec."""
        if not groups:
            raise ValueError(f"no run of {self.name} has reported anything yet: there is nothing to analyse")
        runs = [
            {**run, "differs": group.spec.differences(folder.config(), catalogue)}
            for group in groups
            for run, folder in zip(group.provenance(), group.folders, strict=True)
        ]
        made_by = provenance(relative(command))
        results.write(self.analyse(groups), {"experiment": self.name, **made_by, "runs": runs})

    def draw_from(self, results: Results, out: Path | None = None) -> Path:
        """Draws the figure from the tables in the folder alone, into that folder or into another."""
        tables, out = results.read(), out or results.folder
        try:
            figure = self.draw(tables)
        except Exception as error:  # of tables that someone has changed; what is missing raises many kinds
            raise ValueError(
                f"the tables in {results.folder} cannot be drawn as {self.name} ({type(error).__name__}): "
                "they were changed, or are of another experiment"
            ) from error
        out.mkdir(parents=True, exist_ok=True)
        return write_png(figure, out / f"{self.name}.png")

"""What a run was asked to do, as it is stored in `config.json` and compared when the run goes on."""

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

TOTAL = "total_env_steps"  # the one setting that may grow when a run is resumed
SIZES = ("hash_bits",)  # settings that may be left open, and are decided when a run begins


@dataclass(frozen=True)
class Schedule:
    """When to save: after so many seconds, or so many chunks if given; and how many checkpoints to keep."""

    seconds: float = 120.0
    chunks: int | None = None
    keep: int = 3

    def __post_init__(self) -> None:
        if self.seconds <= 0:
            raise ValueError(f"a checkpoint every {self.seconds} seconds: give a number above 0")
        if self.chunks is not None and self.chunks < 1:
            raise ValueError(f"a checkpoint every {self.chunks} chunks: give at least 1")
        if self.keep < 2:
            raise ValueError(f"keep {self.keep} checkpoints: keep at least 2, so that one can be damaged")


@dataclass(frozen=True)
class Config:
    """Names, seeds and every setting, nested, in types that JSON has."""

    environment: str
    agent: str
    preset: str | None
    seeds: tuple[int, ...]
    settings: Mapping[str, Any]
    schedule: Schedule = field(default_factory=Schedule)

    def __post_init__(self) -> None:
        if not self.seeds:
            raise ValueError("no seeds: give at least one")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds {list(self.seeds)} repeat: each seed is a run of its own, name it once")

    @property
    def total_env_steps(self) -> int | None:
        return self.settings.get(TOTAL)

    def to_json(self) -> dict[str, Any]:
        return plain(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Config":
        lacks = [name for name in cls.__dataclass_fields__ if name not in stored]
        if lacks:
            raise ValueError(
                f"config.json lacks {lacks[0]}: it was changed, or another version of emcts wrote it"
            )
        named = {name: stored[name] for name in ("environment", "agent", "preset", "settings")}
        return cls(**named, seeds=tuple(stored["seeds"]), schedule=Schedule(**stored["schedule"]))


def plain(value: Any) -> dict[str, Any]:
    """A dataclass as JSON gives it back: dictionaries, lists, numbers, text and None."""
    return json.loads(json.dumps(dataclasses.asdict(value)))


def sized(settings: Any) -> Any:
    """The settings with every size that they leave open (None), to begin a run with."""
    return settings.sized() if hasattr(settings, "sized") else settings


def sized_as(settings: Any, stored: Mapping[str, Any]) -> Any:
    """The settings with the sizes that a run began with, where they leave them open. More steps do not change these."""
    open_sizes = [name for name in SIZES if getattr(settings, name, 0) is None]
    return dataclasses.replace(settings, **{name: stored[name] for name in open_sizes if name in stored})


def fill(defaults: Any, stored: Mapping[str, Any], path: str = "") -> Any:
    """The settings with every value from the stored ones. Names that only one side has are refused."""
    names = {setting.name for setting in dataclasses.fields(defaults)}
    for name in sorted(names ^ set(stored)):
        where = "the run was made without it" if name in names else "only the run's config.json has it"
        raise ValueError(f"setting {path + name}: {where}; use the version of emcts that made the run")
    values = {}
    for name in names:
        default, value = getattr(defaults, name), stored[name]
        nested = dataclasses.is_dataclass(default) and isinstance(value, Mapping)
        values[name] = fill(default, value, f"{path}{name}.") if nested else _tuples(value)
    return dataclasses.replace(defaults, **values)


def stored_settings(config: Config, catalogue: Any) -> Any:
    """Returns the settings that a run began with."""
    return fill(catalogue.settings(config.environment, config.agent, config.preset), config.settings)


def override(settings: Any, changes: Mapping[str, Any]) -> Any:
    """Returns the settings with some values replaced, each named by its dotted path."""
    for path, value in changes.items():
        name, _, rest = path.partition(".")
        if name not in {setting.name for setting in dataclasses.fields(settings)}:
            raise ValueError(f"there is no setting {path!r} in {type(settings).__name__}")
        settings = dataclasses.replace(
            settings, **{name: override(getattr(settings, name), {rest: value}) if rest else value}
        )
    return settings


def refuse_changes(stored: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Complains of the first setting that differs, unless it is the number of steps and grew."""
    before, after = dict(flat(stored)), dict(flat(given))
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if name == TOTAL and isinstance(old, int) and isinstance(new, int):
            if new > old:
                continue
            raise ValueError(f"the run goes to {old:,} steps, got {new:,}: --steps can only be raised")
        raise ValueError(
            f"setting {name} is {old!r} in this run, got {new!r}: a run goes on with the settings it began with; "
            "start another with emcts train"
        )


def flat(settings: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting with its dotted path."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{path}{name}.")
        else:
            yield path + name, value


def word_size(settings: Mapping[str, Any]) -> int | None:
    """The memory of the machine that a run writes programs for, if it does."""
    sizes = [value for name, value in flat(settings) if name.rpartition(".")[2] == "word_size"]
    return sizes[0] if sizes else None


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value

"""The configuration of a run: stored in `config.json`, and compared when the run resumes."""

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import (
    Any,
    ClassVar,
    Protocol,
    TypedDict,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
    runtime_checkable,
)

from emcts.runs.stored_json import check
from emcts.training.catalogue import Catalogue
from emcts.types import JSON

TOTAL = "steps"  # the only setting that may grow when a run resumes
MAX_SEED = 2**32 - 1
MAX_SEEDS = 100_000  # of one run
MAX_NAME = 500  # characters


@runtime_checkable
class DataclassInstance(Protocol):
    """A frozen dataclass, possibly nested."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]


SettingsT = TypeVar("SettingsT", bound=DataclassInstance)


@dataclass(frozen=True)
class CheckpointSchedule:
    """When to save: after a number of seconds, or of chunks if given; and how many checkpoints to keep."""

    seconds: float = 120.0
    chunks: int | None = None
    keep: int = 2

    def __post_init__(self) -> None:
        if not 0 < self.seconds < math.inf:
            raise ValueError(f"a checkpoint every {self.seconds} seconds: give a finite number above 0")
        if self.chunks is not None and self.chunks < 1:
            raise ValueError(f"a checkpoint every {self.chunks} chunks: give at least 1")
        if self.keep < 2:
            raise ValueError(f"keep {self.keep} checkpoints: keep at least 2, so that one can be damaged")


class RunIdentity(TypedDict):
    """The run that a checkpoint belongs to."""

    names: Mapping[str, JSON]
    settings: Mapping[str, JSON]


class StoredSchedule(TypedDict):
    """A `CheckpointSchedule` in JSON."""

    seconds: float
    chunks: int | None
    keep: int


class StoredConfig(TypedDict):
    """The content of `config.json`, besides the command, code and machine."""

    environment: str
    agent: str
    preset: str | None
    seeds: list[int]
    settings: dict[str, JSON]
    schedule: StoredSchedule


@dataclass(frozen=True)
class Config:
    """Names, seeds and every setting, nested, as JSON values."""

    environment: str
    agent: str
    preset: str | None
    seeds: tuple[int, ...]
    settings: Mapping[str, JSON]
    schedule: CheckpointSchedule = field(default_factory=CheckpointSchedule)

    def __post_init__(self) -> None:
        for name in (self.environment, self.agent, self.preset or ""):
            if len(name) > MAX_NAME or not name.isprintable():
                raise ValueError(f"{ascii(name)[:80]} is no name: use up to {MAX_NAME} printable characters")
        check_seeds(self.seeds)
        check_finite(self.settings)

    @property
    def total_env_steps(self) -> int | None:
        total = self.settings.get(TOTAL)
        return total if isinstance(total, int) else None

    @property
    def identity(self) -> RunIdentity:
        names: dict[str, JSON] = {
            "environment": self.environment,
            "agent": self.agent,
            "seeds": list(self.seeds),
        }
        return {"names": names, "settings": self.settings}

    def to_json(self) -> dict[str, JSON]:
        return plain(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Config":
        try:
            check(stored, StoredConfig)
        except ValueError as error:
            raise ValueError(
                f"config.json {error}: it was changed, or another version of emcts wrote it"
            ) from None
        schedule = stored["schedule"]
        return cls(
            environment=stored["environment"],
            agent=stored["agent"],
            preset=stored["preset"],
            seeds=tuple(stored["seeds"]),
            settings=stored["settings"],
            schedule=CheckpointSchedule(float(schedule["seconds"]), schedule["chunks"], schedule["keep"]),
        )


def check_seeds(seeds: Sequence[int]) -> None:
    """Raises an error unless there is at least one seed, each once and in the range of random keys."""
    if not seeds:
        raise ValueError("no seeds: give at least one")
    check_seed_count(len(seeds))
    for seed in seeds:
        if not 0 <= seed <= MAX_SEED:
            raise ValueError(f"seed {seed}: seeds are from 0 to {MAX_SEED:,}")
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds {list(seeds)} repeat: give each seed once")


def check_seed_count(seeds: int, name: str = "seeds") -> None:
    """Raises an error for a number of seeds that is below 1, or that no machine could train."""
    if seeds < 1:
        raise ValueError(f"{name} {seeds}: give at least 1")
    if seeds > MAX_SEEDS:
        raise ValueError(f"{name} {seeds}: give at most {MAX_SEEDS:,}")


def check_finite(settings: DataclassInstance | Mapping[str, object]) -> None:
    """Raises an error for the first setting with a number that is not finite."""
    given = settings if isinstance(settings, Mapping) else dataclasses.asdict(settings)
    for path, value in flat(given):
        for number in value if isinstance(value, list | tuple) else (value,):
            if isinstance(number, float) and not math.isfinite(number):
                raise ValueError(f"setting {path} is {number}: give a finite number")


def plain(value: DataclassInstance) -> dict[str, JSON]:
    """Returns a dataclass as JSON reads it back: dictionaries, lists, numbers, text and None."""
    return json.loads(json.dumps(dataclasses.asdict(value)))


def resolve_as(settings: SettingsT, resolved: SettingsT, stored: Mapping[str, JSON]) -> SettingsT:
    """Returns the settings with a run's stored values where `resolved` has chosen some. More steps change none."""
    ours, chosen, theirs = (dict(flat(one)) for one in (plain(settings), plain(resolved), stored))
    left_open = [path for path, value in ours.items() if value is None and chosen[path] is not None]
    return override(settings, {path: theirs[path] for path in left_open if path in theirs})


def fill(defaults: SettingsT, stored: Mapping[str, object], path: str = "") -> SettingsT:
    """Returns the settings with every value from the stored ones. A name that only one of them has is an error."""
    names = {setting.name for setting in dataclasses.fields(defaults)}
    for name in sorted(names ^ set(stored)):
        where = "the run was made without it" if name in names else "only the run's config.json has it"
        raise ValueError(f"setting {path + name}: {where}; use the version of emcts that made the run")
    values: dict[str, object] = {}
    hints = get_type_hints(type(defaults))
    for name in names:
        default, value = getattr(defaults, name), stored[name]
        if isinstance(default, DataclassInstance):
            check(value, dict[str, object], path + name)
            values[name] = fill(default, value, f"{path}{name}.")  # type: ignore[arg-type]
        else:
            check(value, hints[name], path + name)
            values[name] = _restored(value, hints[name])
    return dataclasses.replace(defaults, **values)


def stored_settings(config: Config, catalogue: Catalogue) -> Any:
    """Returns the settings that a run was started with."""
    return fill(catalogue.settings(config.environment, config.agent, config.preset), config.settings)


def override(settings: SettingsT, changes: Mapping[str, object]) -> SettingsT:
    """Returns the settings with some values replaced, each named by its dotted path."""
    for path, value in changes.items():
        name, _, rest = path.partition(".")
        if name not in {setting.name for setting in dataclasses.fields(settings)}:
            raise ValueError(f"there is no setting {path!r} in {type(settings).__name__}")
        before = getattr(settings, name)
        new: object
        if rest and isinstance(before, Mapping):
            new = {**before, rest: value}
        else:
            new = override(before, {rest: value}) if rest else value
        settings = dataclasses.replace(settings, **{name: new})
    return settings


def refuse_changes(stored: Mapping[str, JSON], given: Mapping[str, JSON]) -> None:
    """Raises an error for the first setting that differs, unless it is the number of steps and grew."""
    before, after = dict(flat(stored)), dict(flat(given))
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if name == TOTAL and isinstance(old, int) and isinstance(new, int):
            if new > old:
                continue
            raise ValueError(f"the run has {old:,} steps, got {new:,}: --steps can only be raised")
        raise ValueError(
            f"setting {name} is {old!r} in this run, got {new!r}: a run keeps the settings it was started with; "
            "start another with emcts train"
        )


def flat(settings: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, JSON]]:
    """Yields every setting with its dotted path."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{path}{name}.")
        else:
            yield path + name, value


def _restored(value: object, wanted: Any) -> object:
    """Returns a JSON value as a setting: lists are tuples, and whole numbers are floats where those belong."""
    if isinstance(value, list):
        parts = [one for one in (wanted, *get_args(wanted)) if get_origin(one) is tuple]
        return tuple(_restored(item, get_args(parts[0])[0] if parts else object) for item in value)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if is_number and float in (kinds := (wanted, *get_args(wanted))) and int not in kinds:
        return float(value)  # type: ignore[arg-type]
    return value

"""Settings as Markdown: what each means, its default, and its value in the presets of the paper."""

import ast
import dataclasses
import functools
import inspect
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args, get_origin, get_type_hints

from emcts.agents.catalogue import ENVIRONMENTS, _agents
from emcts.agents.presets import default
from emcts.agents.ranges import RANGES

ANY = "any"  # environments without presets of their own
TITLES = {"deep-sea": "Deep Sea", "subleq": "SUBLEQ", "minatar": "MinAtar"}
KINDS = {"simulator": "az, az-ube, e-az", "learned": "mz, mz-ube, e-mz", "bdqn": "bdqn"}
PAPER = "paper"


@dataclasses.dataclass(frozen=True)
class Preset:
    """A named value of all settings, for one kind of agent in one environment."""

    kind: str
    environment: str
    name: str
    values: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Setting:
    """A field of a settings dataclass, and the kinds of agents that have it with this meaning."""

    path: str
    type: str
    text: str
    kinds: tuple[str, ...] = ()


def presets(kind: str) -> str:
    """Returns a table for each group of settings: rows are settings, columns the presets of a kind of agent."""
    chosen = [preset for preset in _presets() if preset.kind == kind]
    paths = list(dict.fromkeys(path for preset in chosen for path in preset.values))
    groups = dict.fromkeys(_group(path) for path in paths if not path.startswith("env."))
    return "\n\n".join(_preset_table(group, paths, chosen) for group in groups)


def settings(group: str) -> str:
    """Returns an entry for each setting of a group; `run` has those that belong to none."""
    found: dict[str, list[Setting]] = {}
    for setting in _settings():
        if _group(setting.path) == group:
            found.setdefault(setting.path, []).append(setting)
    if not found:
        raise ValueError(f"there is no group of settings {group!r}")
    return "\n\n".join(_entry(path, described) for path, described in found.items())


def groups() -> tuple[str, ...]:
    return tuple(dict.fromkeys(_group(setting.path) for setting in _settings()))


def _entry(path: str, described: list[Setting]) -> str:
    kinds = [
        kind for kind in KINDS if any(path in preset.values for preset in _presets() if preset.kind == kind)
    ]
    types = list(dict.fromkeys(setting.type for setting in described))
    lines = [
        f"```{{confval}} {path}",
        f":type: `{' or '.join(types)}`",
        f":default: {_default(path, kinds)}",
        "",
    ]
    for setting in described:
        of = f"{_agents_of(setting.kinds)}: " if len(described) > 1 else ""
        lines += [of + _sentence(setting.text), ""]
    if path in RANGES:
        lines.append(f"- Allowed: {RANGES[path]}.")
    if len(kinds) < len(KINDS) and not path.startswith("env."):
        lines.append(f"- Agents: {_agents_of(kinds)}.")
    lines += [f"- {line}" for line in (_own_defaults(path), _paper_values(path)) if line]
    return "\n".join([*lines, "```"])


def _default(path: str, kinds: list[str]) -> str:
    """The value in an environment without presets of its own; of a setting of one environment, its default preset's."""
    found = {
        kind: preset.values[path]
        for kind in kinds
        for preset in reversed(_presets())
        if preset.kind == kind and preset.name == "default" and path in preset.values
    }
    if len({_text(value) for value in found.values()}) == 1:
        return _code(next(iter(found.values())))
    return "; ".join(f"{_code(value)} ({KINDS[kind]})" for kind, value in found.items())


def _own_defaults(path: str) -> str:
    """The default presets of built-in environments, where they differ."""
    usual = {preset.kind: preset.values.get(path) for preset in _presets() if preset.environment == ANY}
    chosen = [
        preset
        for preset in _presets()
        if preset.environment != ANY and preset.name == "default" and path in preset.values
    ]
    other = [preset for preset in chosen if preset.values[path] != usual.get(preset.kind)]
    if not other or path.startswith("env."):
        return ""
    return "Default presets: " + _by_value(path, other, lambda preset: _place(preset, path, chosen)) + "."


def _place(preset: Preset, path: str, among: list[Preset]) -> str:
    """The environment, and the agents if others have another value there."""
    values = {_text(one.values[path]) for one in among if one.environment == preset.environment}
    kind = f" ({KINDS[preset.kind]})" if len(values) > 1 else ""
    return TITLES[preset.environment] + kind


def _paper_values(path: str) -> str:
    chosen = [preset for preset in _presets() if preset.name.startswith(PAPER) and path in preset.values]
    if not chosen:
        return ""

    def name(preset: Preset) -> str:
        values = {_text(one.values[path]) for one in chosen if one.name == preset.name}
        return f"`{preset.name}`" + (f" ({KINDS[preset.kind]})" if len(values) > 1 else "")

    values = {_text(preset.values[path]) for preset in chosen}
    if len(values) == 1:
        return f"Paper: {_code(chosen[0].values[path])}."
    return "Paper: " + _by_value(path, chosen, name) + "."


def _by_value(path: str, chosen: list[Preset], name: Any) -> str:
    places: dict[str, list[str]] = {}
    for preset in chosen:
        places.setdefault(_code(preset.values[path]), []).append(name(preset))
    return "; ".join(f"{value} in {', '.join(dict.fromkeys(names))}" for value, names in places.items())


def _preset_table(group: str, paths: list[str], chosen: list[Preset]) -> str:
    header = ["setting", *(_column(preset) for preset in chosen)]
    rows = [
        [f"{{confval}}`{path}`", *(_cell(preset, path) for preset in chosen)]
        for path in paths
        if _group(path) == group
    ]
    align = ["---", *["---:"] * len(chosen)]
    lines = [f"| {' | '.join(row)} |" for row in (header, align, *rows)]
    return "\n".join([f"### {group}", "", *lines])


def _column(preset: Preset) -> str:
    where = "any other" if preset.environment == ANY else TITLES[preset.environment]
    return f"{where}: {preset.name}"


def _cell(preset: Preset, path: str) -> str:
    return _text(preset.values[path]) if path in preset.values else ""


@functools.cache
def _presets() -> tuple[Preset, ...]:
    """Every preset of every environment. The games of MinAtar share theirs."""
    tables = {ANY: default.PRESETS, **{name: entry.presets for name, entry in ENVIRONMENTS.items()}}
    found = []
    for environment, table in tables.items():
        if environment.startswith("minatar-") and environment != "minatar-breakout":
            continue
        place = environment.partition("-")[0] if environment.startswith("minatar-") else environment
        for kind, named in table.items():
            found += [Preset(kind, place, name, dict(_flat(value))) for name, value in named.items()]
    assert {agent.presets for agent in _agents().values()} == set(KINDS)
    return tuple(found)


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    for field in dataclasses.fields(value):
        one = getattr(value, field.name)
        if dataclasses.is_dataclass(one):
            yield from _flat(one, f"{path}{field.name}.")
        else:
            yield path + field.name, one


@functools.cache
def _settings() -> tuple[Setting, ...]:
    """Every setting of every dataclass of settings, in the order of its fields."""
    kinds: dict[Setting, dict[str, None]] = {}
    for table in (default.PRESETS, *(entry.presets for entry in ENVIRONMENTS.values())):
        for kind, named in table.items():
            for value in named.values():
                for setting in _described(value):
                    kinds.setdefault(setting, {})[kind] = None
    return tuple(dataclasses.replace(setting, kinds=tuple(found)) for setting, found in kinds.items())


def _described(value: Any, path: str = "") -> Iterator[Setting]:
    owner = type(value)
    texts, hints = field_texts(owner), get_type_hints(owner)
    for field in dataclasses.fields(value):
        one = getattr(value, field.name)
        if dataclasses.is_dataclass(one):
            yield from _described(one, f"{path}{field.name}.")
        else:
            text = texts.get(field.name, "")
            yield Setting(path + field.name, _type(hints[field.name]), text)


def field_texts(cls: type) -> dict[str, str]:
    """Returns the docstring below each field of a dataclass, as `--help` shows it."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(body, ast.ClassDef)
    texts = {}
    for field, after in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(after, ast.Expr)
        ):
            text = ast.literal_eval(after.value)
            texts[field.target.id] = " ".join(text.split())
    return texts


def _group(path: str) -> str:
    return path.rpartition(".")[0] or "run"


def _agents_of(kinds: Iterable[str]) -> str:
    return ", ".join(KINDS[kind] for kind in kinds)


def _type(hint: Any) -> str:
    if get_origin(hint) is Mapping:
        return "mapping of names to values"
    return hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _code(value: Any) -> str:
    return f"`{_text(value)}`"


def _text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple):
        return " ".join(map(_text, value)) if value else "()"
    return "none" if isinstance(value, Mapping) and not value else str(value)

"""The command line of settings: a flag for each, `--env NAME=VALUE ...` and `--time-limit N`."""

import argparse
import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar

import tyro

from emcts.agents.task import EnvOptions
from emcts.envs.references import is_reference, parse_arguments
from emcts.registry import lookup
from emcts.runs.config import DataclassInstance, check_finite
from emcts.types import JSON

OptionsT = TypeVar("OptionsT", bound=DataclassInstance)
SettingsT = TypeVar("SettingsT", bound=DataclassInstance)


@dataclasses.dataclass(frozen=True)
class ReferenceFlags:
    """The environment. Its own arguments are given by --env NAME=VALUE ..."""

    time_limit: int | None = None
    """steps after which an episode is truncated; --time-limit N is the same"""
    deterministic: bool | None = None
    """whether a step ignores its key; left out, what the environment says, or else what was found by trying"""


def parse_env(arguments: Sequence[str]) -> tuple[dict[str, JSON], int | None, list[str]]:
    """Takes the two options from a command line, and returns the rest of it too."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--env", nargs="*", action="extend", default=[])
    parser.add_argument("--time-limit", "--time_limit", type=int)
    try:
        given, rest = parser.parse_known_args(list(arguments))
    except argparse.ArgumentError as error:
        raise ValueError(str(error).removeprefix("argument ")) from None
    return parse_arguments(given.env), given.time_limit, rest


def refuse_misspelt(arguments: Sequence[str], missing: str) -> None:
    """Raises an error for an option that is nearly the missing one, of which nothing else would tell."""
    for argument in arguments:
        option = argument.partition("=")[0]
        if option.startswith("-") and difflib.get_close_matches(option, [missing], cutoff=0.8):
            raise ValueError(f"unknown option {option}: did you mean {missing}?")


def parse_settings(
    options: OptionsT, settings: SettingsT, environment: str, arguments: Sequence[str], prog: str
) -> tuple[OptionsT, SettingsT]:
    """Parses options and settings from one command line, with the given values as defaults."""
    options, settings = _parse_settings(options, settings, environment, arguments, prog)
    check_finite(settings)
    return options, settings


def _parse_settings(
    options: OptionsT, settings: SettingsT, environment: str, arguments: Sequence[str], prog: str
) -> tuple[OptionsT, SettingsT]:
    env_arguments, time_limit, rest = parse_env(arguments)
    if not is_reference(environment):
        if time_limit is not None:
            raise ValueError(
                f"--time-limit {time_limit}: {environment} ends its episodes itself, leave it out"
            )
        return parse(options, settings, [*rest, *_flags(settings, environment, env_arguments)], prog)
    before: EnvOptions = _env_of(settings)
    if time_limit is not None:
        rest += ["--env.time-limit", str(time_limit)]
    flags: Any = settings
    flags = dataclasses.replace(flags, env=ReferenceFlags(before.time_limit, before.deterministic))
    options, parsed = parse(options, flags, rest, prog)
    env = EnvOptions({**before.arguments, **env_arguments}, parsed.env.time_limit, parsed.env.deterministic)
    return options, dataclasses.replace(parsed, env=env)


def parse(
    options: OptionsT, settings: SettingsT, arguments: Sequence[str], prog: str
) -> tuple[OptionsT, SettingsT]:
    """Parses two dataclasses from one command line."""
    values: dict[str, DataclassInstance] = {"options": options, "settings": settings}
    # An empty name puts the fields of both at the top level.
    fields = [(name, Annotated[_type_of(value), tyro.conf.arg(name="")]) for name, value in values.items()]
    both_type: Any = dataclasses.make_dataclass("Both", fields)
    both: Any = tyro.cli(both_type, prog=prog, args=arguments, default=both_type(**values), description="")
    return both.options, both.settings


def _type_of(value: DataclassInstance) -> object:
    """Returns the type of a dataclass, with the types of its values in place of its type variables."""
    generic: Any = type(value)
    types = {one.type: type(getattr(value, one.name)) for one in dataclasses.fields(value)}
    variables = getattr(generic, "__parameters__", ())
    return generic[tuple(types[variable] for variable in variables)] if variables else generic


def _env_of(settings: Any) -> Any:
    return settings.env


def _flags(settings: Any, environment: str, arguments: Mapping[str, JSON]) -> list[str]:
    """Returns `--env size=12` of a built-in environment as `--env.size 12`."""
    names = dataclasses.fields(settings.env) if arguments else ()
    flags: list[str] = []
    for name, value in arguments.items():
        lookup({field.name: field for field in names}, name, f"option of {environment}")
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            flags.append(f"--env.{flag}" if value else f"--env.no-{flag}")
        else:
            flags += [f"--env.{flag}", str(value)]
    return flags

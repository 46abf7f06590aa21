"""Public names as Markdown: signatures as they are written in the source, docstrings, fields and methods."""

import ast
import functools
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from emcts.envs import base as base_env
from emcts.novelty import base as base_novelty

ROOT = "emcts."
LONG = 40  # characters: longer default values are left out


def is_protocol(cls: type) -> bool:
    return bool(getattr(cls, "_is_protocol", False))


PROTOCOLS = tuple(
    value
    for module in (base_env, base_novelty)
    for value in vars(module).values()
    if inspect.isclass(value) and is_protocol(value) and value.__module__ == module.__name__
)
NOT_SHOWN = {"Replaceable", "Protocol", "Generic"}  # bases whose members say nothing of a class


@dataclass(frozen=True)
class Member:
    """A field or a method of a class, or a constant of a module."""

    name: str
    directive: str
    signature: str
    text: str


def api(module: str, *names: str) -> str:
    """Returns an entry for each of some public names of a module."""
    found = importlib.import_module(module)
    return "\n\n".join(_entry(found, name) for name in names)


def _entry(module: ModuleType, name: str) -> str:
    public, value = f"{module.__name__}.{name}", inspect.unwrap(getattr(module, name))
    if inspect.isclass(value) and value.__module__.startswith(ROOT):
        return _class(public, value)
    if inspect.isfunction(value):
        node = _node(value)
        assert isinstance(node, ast.FunctionDef)
        return _block("py:function", f"{public}{_signature(node)}", _markdown(ast.get_docstring(node)))
    return _constant(public, *_home(module, name))


def _class(public: str, cls: type) -> str:
    node = _node(cls)
    assert isinstance(node, ast.ClassDef)
    fields = [member for member in _fields(node, _source(cls)) if not member.name.startswith("_")]
    signature = _init_signature(node, cls)
    own = [*fields, *_methods(node)]
    members = {member.name: member for base in reversed(_shown_bases(cls)) for member in _members(base)}
    members |= {member.name: member for member in own}
    parts = [_markdown(ast.get_docstring(node))]
    parts += [_block(member.directive, member.signature, member.text) for member in members.values()]
    return _block(
        "py:class", f"{public}{signature}", "\n\n".join(part for part in parts if part), fence="````"
    )


def _members(cls: type) -> list[Member]:
    node = _node(cls)
    assert isinstance(node, ast.ClassDef)
    return [*_fields(node, _source(cls)), *_methods(node)]


def _shown_bases(cls: type) -> list[type]:
    """Bases of this package, the nearest first, whose members a reader would look for in the class.

    Those of a protocol are listed where it is.
    """
    return [
        base
        for base in cls.__mro__[1:]
        if base.__module__.startswith(ROOT) and base.__name__ not in NOT_SHOWN and not is_protocol(base)
    ]


def _fields(node: ast.ClassDef, source: str) -> Iterator[Member]:
    """Yields the fields of a class, with the comment behind each or the docstring below it."""
    lines = source.splitlines()
    for field, after in zip(node.body, [*node.body[1:], None], strict=True):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        name = field.target.id
        if name.startswith("_") or ast.unparse(field.annotation).startswith("ClassVar"):
            continue
        comment = re.search(r"\s#:? (.*)$", lines[(field.end_lineno or field.lineno) - 1])
        text = comment[1] if comment else ""
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            text = inspect.cleandoc(str(after.value.value))
        text = _sentence(re.sub(r"^(\[.*?\])", r"Shape `\1`", text))
        yield Member(name, "py:attribute", name, f":type: {ast.unparse(field.annotation)}\n\n{text}")


def _methods(node: ast.ClassDef) -> Iterator[Member]:
    """Yields the public methods and properties of a class."""
    is_protocol = any(ast.unparse(base).startswith("Protocol") for base in node.bases)
    for method in node.body:
        if not isinstance(method, ast.FunctionDef):
            continue
        if method.name.startswith("_") and method.name != "__call__":
            continue
        text = _markdown(ast.get_docstring(method))
        if not text and not is_protocol:
            text = _of_protocols(method.name)
        if any(ast.unparse(decorator).endswith("property") for decorator in method.decorator_list):
            kind = f":type: {ast.unparse(method.returns)}\n\n" if method.returns else ""
            yield Member(method.name, "py:property", method.name, kind + text)
        else:
            yield Member(method.name, "py:method", f"{method.name}{_signature(method, skip_self=True)}", text)


@functools.cache
def _of_protocols(name: str) -> str:
    """What a protocol says of a member, which a class that has it need not repeat."""
    for protocol in PROTOCOLS:
        for member in _members(protocol):
            if member.name == name and member.text:
                return member.text
    return ""


def _constant(public: str, home: str, name: str) -> str:
    """A constant or an alias of a type, with the comment above or behind it in the module that has it."""
    module = importlib.import_module(home)
    source = Path(inspect.getsourcefile(module) or "").read_text()
    for node in ast.parse(source).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            lines = source.splitlines()
            behind = re.search(r"\s#:? (.*)$", lines[(node.end_lineno or node.lineno) - 1])
            above = lines[node.lineno - 2]
            text = behind[1] if behind else above.lstrip("#: ") if above.startswith("#") else ""
            return _block("py:data", public, _sentence(text))
    raise ValueError(f"{home} has no constant {name}")


def _home(module: ModuleType, name: str) -> tuple[str, str]:
    """The module from which a package imports a name, and its name there."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return node.module, alias.name
    return module.__name__, name


def _node(value: Any) -> ast.stmt:
    return ast.parse(_source(value)).body[0]


def _source(value: Any) -> str:
    return textwrap.dedent(inspect.getsource(value))


def _init_signature(node: ast.ClassDef, cls: type) -> str:
    """The signature of `__init__`, or that of the fields of a dataclass. A protocol has none."""
    if is_protocol(cls) or issubclass(cls, Exception):
        return ""
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            return _signature(method, skip_self=True, returns=False)
    defaults = {name: text for base in (*reversed(_shown_bases(cls)), cls) for name, text in _defaults(base)}
    parameters = inspect.signature(cls).parameters.values()
    given = [
        one.name if one.default is one.empty else f"{one.name}={defaults.get(one.name, '...')}"
        for one in parameters
    ]
    return f"({', '.join(given)})"


def _defaults(cls: type) -> Iterator[tuple[str, str]]:
    """Yields the default of each field as the class has it, unless it is long."""
    node = _node(cls)
    assert isinstance(node, ast.ClassDef)
    for field in node.body:
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and field.value is not None
        ):
            text = ast.unparse(field.value)
            yield field.target.id, text if len(text) < LONG else "..."


def _signature(node: ast.FunctionDef, *, skip_self: bool = False, returns: bool = True) -> str:
    arguments = node.args
    static = any(ast.unparse(decorator) == "staticmethod" for decorator in node.decorator_list)
    if skip_self and not static:
        arguments = ast.arguments(
            **{**vars(arguments), "args": arguments.args[1:], "posonlyargs": arguments.posonlyargs}
        )
    result = f" -> {ast.unparse(node.returns)}" if returns and node.returns is not None else ""
    return f"({ast.unparse(arguments)}){result}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("." if text and text[-1] not in ".`" else "")


def _markdown(docstring: str | None) -> str:
    """A docstring with its `Args:` as a list."""
    if not docstring:
        return ""
    text, found, arguments = docstring.partition("\nArgs:\n")
    if not found:
        return docstring
    entries = re.split(r"\n(?=\S)", textwrap.dedent(arguments))
    listed = [re.sub(r"^(\w+): ", r"- `\1`: ", " ".join(entry.split())) for entry in entries if entry.strip()]
    return "\n".join([text.rstrip(), "", *listed])


def _block(directive: str, argument: str, body: str, fence: str = "```") -> str:
    return f"{fence}{{{directive}}} {argument}\n{body}\n{fence}"

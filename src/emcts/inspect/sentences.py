"""What a search decided and why, in sentences made from its numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from emcts.inspect.growth import Growth

Record = Mapping[str, Any]  # of a search, as `search_record` returns it


def why(record: Record, action: int | None, by: str = "") -> str:
    """Says which action was chosen, by which numbers, and whether uncertainty decided. `by` names another rule."""
    root, beta = record["root"], _or_zero(record["beta"])
    if action is None:
        return "No action was tried."
    name, tried = root["labels"][action], [a for a, visits in enumerate(root["visits"]) if visits]
    if by:
        return f"Takes {name} {by}."
    if action not in tried:
        return f"Takes {name}, which the search did not visit."
    total = sum(root["visits"])
    taken = f"Takes {name}: {root['visits'][action]} of {total} visits, {_numbers(root, action, beta)}"
    others = [a for a in tried if a != action]
    if not others:
        untried = sum(root["legal"]) - 1
        return f"{taken}; " + (
            "it is the only legal action." if not untried else "no other action was visited."
        )
    rival = max(others, key=lambda a: (_score(root, a, beta), root["visits"][a]))
    against = f"{taken}. The best other action, {root['labels'][rival]}, has {_numbers(root, rival, beta)}"
    return f"{against}: {_reason(root, action, rival, beta)}."


def choices(records: Sequence[Record], actions: Sequence[int], growth: Growth) -> str:
    """Says which actions searches that differ in beta alone choose, and from which simulation on they differ."""
    if len(records) < 2:
        return ""
    names = [record["root"]["labels"][action] for record, action in zip(records, actions, strict=True)]
    betas = [f"{record['beta']:g}" for record in records]
    if len(set(names)) == 1:
        chosen = f"With beta {_listed(betas)} alike it takes {names[0]}."
    else:
        chosen = (
            f"It takes {_listed([f'{name} with beta {b}' for name, b in zip(names, betas, strict=True)])}."
        )
    return " ".join([chosen, *(_parting(records, growth, other) for other in range(1, len(records)))])


def first_difference(growth: Growth, one: int, other: int) -> int | None:
    """Returns the first simulation, from 1 on, after which two searches of a batch have visited different nodes."""
    visits = np.asarray(growth.visits)
    differs = (visits[one] != visits[other]).any(axis=-1)
    return int(np.argmax(differs)) if differs.any() else None


def _parting(records: Sequence[Record], growth: Growth, other: int) -> str:
    pair = f"Beta {records[0]['beta']:g} and {records[other]['beta']:g}"
    first = first_difference(growth, 0, other)
    if first is None:
        return f"{pair} make the same tree."
    taken = [record["growth"]["root"]["action"][first - 1] for record in (records[0], records[other])]
    labels = records[0]["root"]["labels"]
    if taken[0] == taken[1]:
        return f"{pair} first differ at simulation {first}, below {labels[taken[0]]}."
    return f"{pair} first differ at simulation {first}: {labels[taken[0]]} against {labels[taken[1]]}."


def _reason(root: Mapping[str, Any], action: int, rival: int, beta: float) -> str:
    score, other_score = (_score(root, a, beta) for a in (action, rival))
    value, other = (_or_zero(root["q"][a]) for a in (action, rival))
    if score == other_score:
        return "both score the same, and visits or the prior decide"
    if score < other_score and root["visits"][action] > root["visits"][rival]:
        return "that scores higher, but the visits decide"
    if score < other_score:
        prior, other_prior = (_or_zero(root["prior"][a]) for a in (action, rival))
        if prior <= other_prior:
            return "that scores higher, but a random draw of the search decides"
        return f"that scores higher, but the prior decides ({prior:.3g} against {other_prior:.3g})"
    if value >= other:
        return "its value decides"
    return f"its value is lower, but it is {'more' if beta > 0 else 'less'} uncertain, and that decides"


def _numbers(root: Mapping[str, Any], action: int, beta: float) -> str:
    q, std = _or_zero(root["q"][action]), root["std"][action]
    text = f"q {q:.3g}" + ("" if std is None else f" ± {std:.2g}")
    return f"{text}, score {_score(root, action, beta):.3g} with beta {beta:g}" if beta else text


def _score(root: Mapping[str, Any], action: int, beta: float) -> float:
    std = _or_zero(root["std"][action])
    return _or_zero(root["q"][action]) + (beta * std if beta else 0.0)


def _or_zero(value: float | int | None) -> float:
    return 0.0 if value is None else float(value)


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"

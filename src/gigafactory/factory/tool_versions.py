"""The versions that a run stands on: of its engine, of git, and of the tools that its job needs."""

import re
from collections.abc import Iterable

from gigafactory.domain.engine import program
from gigafactory.factory.assignment import Assignment
from gigafactory.factory.tools import TOOLS

ALWAYS = "git"

_TOOLS = frozenset(tool.name for tool in TOOLS)
_KEY = re.compile(r"(?:has:)?([^:<>=]+)")


def versions_used(assignment: Assignment, found: Iterable[str]) -> dict[str, str]:
    """By name, as far as this machine knows them; `found` are its capability tokens."""
    named = (match[1] for token in assignment.manifest.capabilities if (match := _KEY.match(token)))
    wanted = {ALWAYS, *(name for name in named if name in _TOOLS)}
    if assignment.engine is not None:
        wanted.add(program(assignment.engine))
    known = dict(token.split(":", 1) for token in found if ":" in token)
    return {name: known[name] for name in sorted(wanted) if name in known}

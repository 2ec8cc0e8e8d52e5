"""Capability tokens: parse what jobs require and factories advertise, and match them."""

import difflib
import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from heapq import nsmallest

import msgspec

from gigafactory.domain.errors import Fault, Invalid

TOKEN_CHARS_MAX = 200
COMPARED_CHARS_MAX = 60
"""Characters of a token in a search for similar ones."""
KNOWN_MAX = 1000
"""Tokens in a search for similar ones."""
CLOSE_MAX = 10
ANY_OS = "os:any"

_KEY = re.compile(r"[a-z0-9][a-z0-9._-]*")
_VALUE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+@/:-]*")
_COMPARISON = re.compile(r"([^<>=]*)(>=|<=|>|<|=)(.*)", re.DOTALL)
_VERSION = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,18}){0,9}")

Version = tuple[int, ...]


class Requirement(msgspec.Struct, frozen=True):
    """A parsed capability token that a job requires."""

    token: str
    key: str
    op: str = ""
    """Empty for presence, `:` for a value, else a comparison operator."""
    value: str = ""
    version: Version = ()

    @staticmethod
    def parse(token: str) -> "Requirement":
        """Parse a token; ValueError says what is wrong with it."""
        return _requirement(token)


class AdvertisedCapability(msgspec.Struct, frozen=True):
    """A parsed capability token that a factory advertises."""

    token: str
    key: str
    value: str = ""

    @staticmethod
    def parse(token: str) -> "AdvertisedCapability":
        """Parse a token; ValueError says what is wrong with it."""
        requirement = _requirement(token)
        if requirement.op not in {"", ":"}:
            raise ValueError(
                f"{token!r} compares; a factory advertises what it has, such as"
                f" {requirement.key}:{requirement.value}"
            )
        return AdvertisedCapability(token, requirement.key, requirement.value)


def parse_advertised(
    tokens: Iterable[str], *, subject: str = "the advertisement"
) -> frozenset[str]:
    """Return a factory's tokens; raises Invalid with the faults of all."""
    accepted, faults = set(), []
    for index, token in enumerate(tokens):
        try:
            accepted.add(AdvertisedCapability.parse(token).token)
        except ValueError as wrong:
            faults.append(Fault(f"capabilities[{index}]", str(wrong)))
    if faults:
        raise Invalid(subject, faults)
    return frozenset(accepted)


def meets(requirement: str | Requirement, advertised: frozenset[str]) -> bool:
    """Return whether the advertised tokens meet one requirement.

    Missing version components count as zero, so `20.11.1` is more than `20`; `=` compares only the
    components that it names, so `node:20.11.1` meets `node=20`.
    """
    token = requirement if isinstance(requirement, str) else requirement.token
    if token in advertised or token == ANY_OS:
        return True
    if isinstance(requirement, str):
        requirement = _requirement(requirement)
    if requirement.op == ":":
        return False
    versions = _by_key(advertised).get(requirement.key)
    if versions is None:
        return False
    return not requirement.op or any(_version_matches(version, requirement) for version in versions)


def missing_requirements(
    requirements: Iterable[str], advertised: frozenset[str]
) -> tuple[str, ...]:
    """Return the requirements that the advertised tokens do not meet."""
    return tuple(token for token in requirements if not meets(token, advertised))


def similar_tokens(token: str, known: Collection[str], *, limit: int = 3) -> tuple[str, ...]:
    """Return existing tokens similar to a misspelled one: the same key first."""
    compared = _COMPARISON.fullmatch(token)
    key = (compared[1] if compared else token).partition(":")[0]
    same_key = [other for other in known if other.partition(":")[0] == key]
    similar = _closest(token, same_key, limit, cutoff=0.0)
    if len(similar) < limit:
        similar += _closest(token, known, limit, cutoff=0.6)
    return tuple(dict.fromkeys(similar))[:limit]


def _closest(token: str, known: Collection[str], limit: int, *, cutoff: float) -> list[str]:
    """Return the closest tokens, best first.

    A comparison by difflib may take a millisecond: only the tokens with the most pairs of
    characters in common, and only their beginnings, are compared.
    """
    short = token[:COMPARED_CHARS_MAX]
    pairs = _pairs(short)

    def distance(other: str) -> tuple[float, str]:
        theirs = _pairs(other[:COMPARED_CHARS_MAX])
        return -len(pairs & theirs) / (len(pairs) + len(theirs) or 1), other

    looked_at = known if len(known) <= KNOWN_MAX else sorted(known)[:KNOWN_MAX]
    near: dict[str, list[str]] = {}
    for other in nsmallest(CLOSE_MAX, looked_at, distance):
        near.setdefault(other[:COMPARED_CHARS_MAX], []).append(other)
    best = difflib.get_close_matches(short, near, n=limit, cutoff=cutoff)
    return [other for each in best for other in near[each]]


def _pairs(text: str) -> set[str]:
    return {text[at : at + 2] for at in range(len(text) - 1)}


@lru_cache(maxsize=8192)
def _requirement(token: str) -> Requirement:
    if len(token) > TOKEN_CHARS_MAX:
        raise ValueError(f"a token has at most {TOKEN_CHARS_MAX} characters, not {len(token)}")
    if match := _COMPARISON.fullmatch(token):
        return _comparison(token, match[1], match[2], match[3])
    key, colon, value = token.partition(":")
    _check_key(token, key)
    if colon and not _VALUE.fullmatch(value):
        raise ValueError(
            f"{token!r} has no usable value after the colon: letters, digits and . _ + @ / : -"
        )
    return Requirement(token, key, colon, value)


def _comparison(token: str, key: str, op: str, version: str) -> Requirement:
    _check_key(token, key)
    if not _VERSION.fullmatch(version):
        raise ValueError(
            f"{token!r} compares with {version!r}, which is no version: numbers and dots, such as"
            f" {key}{op}3.11"
        )
    return Requirement(token, key, op, version, _version(version))


def _check_key(token: str, key: str) -> None:
    if not _KEY.fullmatch(key):
        raise ValueError(
            f"{token!r} is no capability: expected key, key:value or key>=version, with a key of"
            " lower-case letters, digits, dots and dashes"
        )


def _version(text: str) -> Version:
    return tuple(int(part) for part in text.split("."))


@lru_cache(maxsize=4096)
def _by_key(advertised: frozenset[str]) -> dict[str, tuple[Version, ...]]:
    """Return the versions by key; a key without a version maps to ()."""
    versions_by_key: dict[str, tuple[Version, ...]] = {}
    for token in advertised:
        key, _, value = token.partition(":")
        # Tools print `v20.11.1` and `1.22rc1`: the leading numbers are the version.
        match = _VERSION.match(value.removeprefix("v"))
        versions = (_version(match[0]),) if match else ()
        versions_by_key[key] = versions_by_key.get(key, ()) + versions
    return versions_by_key


def _version_matches(version: Version, requirement: Requirement) -> bool:
    wanted = requirement.version
    if requirement.op == "=":
        return _padded(version, len(wanted))[: len(wanted)] == wanted
    width = max(len(version), len(wanted))
    left, right = _padded(version, width), _padded(wanted, width)
    match requirement.op:
        case ">=":
            return left >= right
        case ">":
            return left > right
        case "<=":
            return left <= right
        case _:
            return left < right


def _padded(version: Version, width: int) -> Version:
    return version + (0,) * (width - len(version))

"""The locked dependencies of the program with their licences: a table, and a CycloneDX document.

`python -m tools.dependencies FILE` writes the document (`make sbom`).
"""

import hashlib
import json
import re
import sys
import uuid
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from gigafactory import __version__

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements" / "run.lock"

ALLOWED = frozenset(
    {
        *("Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0", "MPL-2.0"),
        "PSF-2.0",
    }
)
"""Licences that dependencies may have: permissive ones, and copyleft for single files (MPL)."""

ELSEWHERE = {
    "colorama": "BSD-3-Clause",
    "httpx2-jsfetch": "BSD-3-Clause",
    "pywin32": "PSF-2.0",
    "tzdata": "Apache-2.0",
    "uvloop": "Apache-2.0 OR MIT",
}
"""Licences of packages that only some platforms install, or whose metadata name two of them."""

_ENTRY = re.compile(r"(?P<name>[a-z0-9._-]+)==(?P<version>\S+)(?: ; (?P<marker>.*?))? \\")
_HASH = re.compile(r"\s+--hash=sha256:([0-9a-f]{64})")
_SPOKEN = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
_EXPRESSION = re.compile(r"[A-Za-z0-9.-]+(?: (?:OR|AND) [A-Za-z0-9.-]+)*")
_CLASSIFIER = "License :: OSI Approved :: "


class Dependency(NamedTuple):
    """A package that the program installs."""

    name: str
    version: str
    marker: str
    """Where it is installed; empty for everywhere."""
    hashes: tuple[str, ...]
    licence: str
    """SPDX expression; empty if unknown."""


def locked(lock: Path = LOCK) -> Iterator[Dependency]:
    """Yield the packages of a lock file."""
    entry: re.Match[str] | None = None
    hashes: list[str] = []
    for line in [*lock.read_text(encoding="utf-8").splitlines(), "end==0 \\"]:
        if found := _HASH.match(line):
            hashes.append(found[1])
        elif found := _ENTRY.match(line):
            if entry is not None:
                name, version, marker = entry["name"], entry["version"], entry["marker"] or ""
                yield Dependency(name, version, marker, tuple(hashes), licence_of(name))
            entry, hashes = found, []


def licence_of(name: str) -> str:
    """Return the licence of a package as an SPDX expression; empty if it is unknown."""
    if name in ELSEWHERE:
        return ELSEWHERE[name]
    try:
        about = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return ""
    for field in about.get_all("License-Expression") or ():
        return str(field)
    text = "".join(map(str, about.get_all("License") or ())).strip()
    if text in _SPOKEN or text.startswith("MIT License"):
        return _SPOKEN.get(text, "MIT")
    if _EXPRESSION.fullmatch(text):
        return text
    classifiers = [str(each) for each in about.get_all("Classifier") or ()]
    spoken = [each.removeprefix(_CLASSIFIER) for each in classifiers if _CLASSIFIER in each]
    return _SPOKEN.get(spoken[0], "") if len(spoken) == 1 else ""


def is_allowed(licence: str) -> bool:
    """Return whether a licence is allowed: one of those to choose from, all that hold together."""
    return any(
        all(part.strip() in ALLOWED for part in choice.split(" AND "))
        for choice in licence.split(" OR ")
    )


def licences() -> Iterator[str]:
    """Yield the page of licences."""
    yield "# Licences of dependencies\n"
    yield (
        "Everything in `requirements/run.lock`, extras included. A test fails for a licence that is"
        f" unknown or not among {', '.join(sorted(ALLOWED))}. `make sbom` writes the same as a"
        " CycloneDX document to `dist/sbom.cdx.json`.\n"
    )
    yield "| package | version | licence | only where |"
    yield "| --- | --- | --- | --- |"
    for each in locked():
        yield f"| {each.name} | {each.version} | {each.licence} | {each.marker} |"


def cyclonedx(dependencies: Sequence[Dependency]) -> dict[str, Any]:
    """Return a CycloneDX 1.6 document; the same lock file gives the same document."""
    seed = hashlib.sha256(repr((__version__, dependencies)).encode()).digest()[:16]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.UUID(bytes=seed, version=4)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": f"pkg:pypi/gigafactory@{__version__}",
                "name": "gigafactory",
                "version": __version__,
                "licenses": [{"license": {"id": "MIT"}}],
            }
        },
        "components": [_component(each) for each in dependencies],
    }


def _component(of: Dependency) -> dict[str, Any]:
    reference = f"pkg:pypi/{of.name}@{of.version}"
    single = " " not in of.licence
    licence = {"license": {"id": of.licence}} if single else {"expression": of.licence}
    marker = [{"name": "python:marker", "value": of.marker}] if of.marker else []
    # One hash for each file of the release: a property, as `hashes` are those of one file.
    files = [{"name": "python:sha256", "value": each} for each in of.hashes]
    return {
        "type": "library",
        "bom-ref": reference,
        "name": of.name,
        "version": of.version,
        "purl": reference,
        "licenses": [licence] if of.licence else [],
        "properties": [*marker, *files],
    }


def main() -> int:
    """Write the CycloneDX document."""
    file = Path(sys.argv[1])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(cyclonedx(list(locked())), indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

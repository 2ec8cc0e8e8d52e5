"""Dependencies: known, listed, and under licences that we may ship."""

import re
from importlib import metadata

import pytest

from tools.dependencies import Dependency, cyclonedx, is_allowed, licence_of, locked

DEPENDENCIES = list(locked())


def test_every_locked_package_is_read_with_its_hashes() -> None:
    names = [each.name for each in DEPENDENCIES]
    assert {"litestar", "uvicorn", "click", "asyncpg"} <= {*names}
    assert len(names) == len({*names}) > 50
    assert all(each.hashes for each in DEPENDENCIES)


def test_every_licence_is_known_and_allowed() -> None:
    wrong = {each.name: each.licence for each in DEPENDENCIES if not is_allowed(each.licence)}
    assert wrong == {}, "unknown or not allowed: see ALLOWED and ELSEWHERE in tools/dependencies.py"


def test_installed_versions_are_the_locked_ones() -> None:
    everywhere = [each for each in DEPENDENCIES if not each.marker]
    assert {each.name: metadata.version(each.name) for each in everywhere} == {
        each.name: each.version for each in everywhere
    }


@pytest.mark.parametrize(
    ("licence", "allowed"),
    [
        *(("MIT", True), ("MIT OR GPL-3.0-only", True), ("Apache-2.0 AND BSD-2-Clause", True)),
        *(("", False), ("GPL-3.0-only", False), ("MIT AND AGPL-3.0-only", False)),
        *(("LGPL-2.1-only", False), ("Custom", False)),
    ],
)
def test_unknown_and_strong_copyleft_licences_are_not_allowed(
    licence: str, *, allowed: bool
) -> None:
    assert is_allowed(licence) is allowed


def test_licence_of_an_unknown_package_is_unknown() -> None:
    assert licence_of("no-such-package") == ""


def test_document_has_every_package_once_and_is_reproducible() -> None:
    document = cyclonedx(DEPENDENCIES)
    assert document == cyclonedx(DEPENDENCIES)
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", document["serialNumber"])
    purls = [each["purl"] for each in document["components"]]
    assert len(purls) == len({*purls}) == len(DEPENDENCIES)
    both = cyclonedx([Dependency("a", "1", "", ("00",), "MIT OR Apache-2.0")])
    assert both["components"][0]["licenses"] == [{"expression": "MIT OR Apache-2.0"}]

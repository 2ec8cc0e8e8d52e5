"""The versions that a run reports."""

import pytest

from gigafactory.domain.job.job import Step
from gigafactory.domain.manifest.manifest import Manifest
from gigafactory.factory.core.assignment import Assignment
from gigafactory.factory.run.report_payloads import tool_versions

FOUND = (
    *("os:linux", "mem:16", "has:git", "git:2.47.3", "node:20.11.1", "has:node"),
    *("claude:2.1.197", "acp:1.0", "python:3.12.3", "has:figma", "cred:github"),
)


def versions(engine: str | None, *needs: str) -> dict[str, str]:
    assignment = Assignment(
        job_id="job-1",
        name="fix-login",
        title="Fix the login",
        run_id="job-1.1",
        epoch=1,
        step=Step.RUN,
        engine=engine,
        manifest=Manifest(capabilities=needs),
        body="",
    )
    return tool_versions(assignment, FOUND)


@pytest.mark.parametrize(
    ("engine", "needs", "names"),
    [
        ("claude", (), ["claude", "git"]),
        (None, (), ["git"]),
        ("acp:agent --acp", (), ["acp", "git"]),
        ("command", ("node>=20", "has:python", "has:figma"), ["git", "node", "python"]),
        ("command", ("os:linux", "mem>=8", "cred:github", "go>=1"), ["git"]),
    ],
)
def test_versions_cover_engine_git_and_required_tools(
    engine: str | None, needs: tuple[str, ...], names: list[str]
) -> None:
    assert list(versions(engine, *needs)) == names


def test_reported_version_is_the_detected_one() -> None:
    assert versions("claude", "node") == {"claude": "2.1.197", "git": "2.47.3", "node": "20.11.1"}

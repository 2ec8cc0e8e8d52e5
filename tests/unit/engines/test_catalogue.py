"""The catalogue of engines, including engines from other packages."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gigafactory.domain.errors import Invalid, NotFound
from gigafactory.domain.manifest.engine_ref import ENGINE_CLASSES
from gigafactory.engines.catalogue import ENGINES, find_engine, load_engines
from tests.support.engine_replay import a_work

ENGINE = """
from gigafactory.engines.protocol.engine import Engine

TINY = Engine(name="tiny", programs=("tiny",), start=lambda work: work, reader=lambda work: work)
"""


class Site:
    """A separate folder of installed packages."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name

    def install(self, engine: str, value: str, source: str = ENGINE) -> None:
        """Install a package with one module and the entry point `module:value`."""
        (self.folder / f"{self.name}.py").write_text(source)
        info = self.folder / f"{self.name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {self.name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(
            f"[gigafactory.engines]\n{engine} = {self.name}:{value}\n"
        )


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    name = f"package_{tmp_path.name.replace('-', '_')}"
    sys.path.insert(0, str(tmp_path))
    yield Site(tmp_path, name)
    sys.path.remove(str(tmp_path))
    sys.modules.pop(name, None)


def test_every_engine_class_of_the_domain_matches_its_engine() -> None:
    assert {name: ENGINES[name].engine_class for name in ENGINE_CLASSES} == ENGINE_CLASSES
    assert set(ENGINES) == {*ENGINE_CLASSES, "acp", "command"}


def test_entry_point_adds_an_engine(site: Site) -> None:
    site.install("tiny", "TINY")
    assert load_engines()["tiny"].programs == ("tiny",)
    assert find_engine("tiny").name == "tiny"
    assert set(ENGINES) < set(load_engines())


@pytest.mark.parametrize(
    ("value", "source", "reason"),
    [
        ("TINY", "import no_such_module", "cannot be loaded"),
        ("TINY", "1 +", "cannot be loaded"),
        ("Absent", ENGINE, "cannot be loaded"),
        ("Other", "class Other: name = 'tiny'", "it is a type, not an Engine"),
        ("TINY", ENGINE.replace('="tiny"', '="claude"'), "a built-in engine"),
    ],
)
def test_broken_entry_point_is_logged_and_left_out(
    site: Site, value: str, source: str, reason: str
) -> None:
    site.install("tiny", value, source)
    with capture_logs() as logs:
        found = load_engines()
    assert found == ENGINES
    assert [entry["log_level"] for entry in logs] == ["warning"]
    assert reason in logs[0]["reason"]


def test_acp_agent_is_named_by_its_command_and_inherits_its_program_settings() -> None:
    agent = find_engine("acp:gemini --acp")
    assert (agent.name, agent.programs) == ("acp:gemini --acp", ("gemini",))
    assert "GEMINI_API_KEY" in agent.credentials
    assert agent.repo_settings == (".gemini",)
    assert agent.start(a_work(program="/bin/gemini")).argv == ("/bin/gemini", "--acp")


@pytest.mark.parametrize("name", ["acp:", "acp:agent 'half"])
def test_malformed_acp_command_is_rejected(name: str) -> None:
    with pytest.raises(Invalid, match="engine"):
        find_engine(name)


def test_unknown_engine_error_lists_the_known_ones() -> None:
    with pytest.raises(NotFound, match=r"no engine 'nobody'; there are acp, aider, claude"):
        find_engine("nobody")

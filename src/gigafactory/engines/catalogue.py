"""All engines by name: built-in ones, and plug-ins of other packages."""

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points

import msgspec
import structlog

from gigafactory.domain.errors import Fault, Invalid, NotFound
from gigafactory.domain.manifest.engine_ref import ACP_PREFIX
from gigafactory.engines.acp import ACP, DEVIN, acp_engine
from gigafactory.engines.aider import AIDER
from gigafactory.engines.claude import CLAUDE
from gigafactory.engines.cline import CLINE
from gigafactory.engines.codex import CODEX
from gigafactory.engines.command import COMMAND
from gigafactory.engines.copilot import COPILOT
from gigafactory.engines.gemini import GEMINI
from gigafactory.engines.opencode import OPENCODE
from gigafactory.engines.openhands import OPENHANDS
from gigafactory.engines.pi import PI
from gigafactory.engines.protocol.engine import Engine
from gigafactory.engines.qwen import QWEN

log = structlog.get_logger()

ENTRY_POINT_GROUP = "gigafactory.engines"

_SHIPPED: tuple[Engine, ...] = (
    CLAUDE,
    CODEX,
    GEMINI,
    OPENCODE,
    AIDER,
    QWEN,
    PI,
    CLINE,
    OPENHANDS,
    COPILOT,
    DEVIN,
    ACP,
    COMMAND,
)
ENGINES: Mapping[str, Engine] = {engine.name: engine for engine in _SHIPPED}
"""The built-in engines."""

# Errors that the import of a broken plug-in can raise.
_IMPORT_ERRORS = (
    ImportError,
    AttributeError,
    SyntaxError,
    NameError,
    TypeError,
    ValueError,
    LookupError,
)


def load_engines() -> Mapping[str, Engine]:
    """Return built-in and plug-in engines by name; skip broken plug-ins with a warning."""
    added = (_load(entry) for entry in entry_points(group=ENTRY_POINT_GROUP))
    return {**{engine.name: engine for engine in added if engine is not None}, **ENGINES}


def find_engine(name: str) -> Engine:
    """Return the engine of a name, or the agent of `acp:<command>`.

    Raises NotFound, or Invalid for a command that cannot be parsed.
    """
    if name.startswith(ACP_PREFIX):
        return _acp_agent(name, name.removeprefix(ACP_PREFIX))
    engine = ENGINES.get(name) or load_engines().get(name)
    if engine is None:
        raise NotFound("engine", name, f"there are {', '.join(sorted(load_engines()))}")
    return engine


def _acp_agent(name: str, command: str) -> Engine:
    try:
        agent = acp_engine(name, command)
    except ValueError as error:
        raise Invalid("the engine", [Fault("engine", f"{name}: {error}")]) from error
    if not agent.programs:
        raise Invalid("the engine", [Fault("engine", "expected acp:<command>")])
    known = [engine for engine in _SHIPPED if agent.programs[0] in engine.programs]
    return msgspec.structs.replace(
        agent,
        credentials=tuple(variable for engine in known for variable in engine.credentials),
        repo_settings=tuple(path for engine in known for path in engine.repo_settings),
    )


def _load(entry: EntryPoint) -> Engine | None:
    try:
        engine = entry.load()
    except _IMPORT_ERRORS as error:
        _warn(entry, f"it cannot be loaded: {error!r}")
        return None
    if not isinstance(engine, Engine):
        _warn(entry, f"it is a {type(engine).__name__}, not an Engine")
        return None
    if engine.name in ENGINES:
        _warn(entry, "a built-in engine has that name")
        return None
    return engine


def _warn(entry: EntryPoint, reason: str) -> None:
    log.warning("engine plug-in skipped", engine=entry.name, entry=entry.value, reason=reason)

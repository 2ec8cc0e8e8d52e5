"""Which engine is of which class, and in what order a job may have them."""

from collections.abc import Iterable, Mapping

from gigafactory.domain.manifest.manifest import EngineClass, Manifest
from gigafactory.domain.manifest.names import line, slug

COMMAND = "command"
ACP_PREFIX = "acp:"

ENGINE_CLASSES: Mapping[str, EngineClass] = {
    "claude": "agentic-coder",
    "codex": "agentic-coder",
    "devin": "agentic-coder",
    "gemini": "agentic-coder",
    "opencode": "agentic-coder",
    "aider": "agentic-coder",
    "qwen": "agentic-coder",
    "pi": "agentic-coder",
    "cline": "agentic-coder",
    "openhands": "agentic-coder",
    "copilot": "chat-coder",
}
"""The class of each shipped engine; `command` is of any class, and so is not listed."""


def engine_name(text: str) -> str:
    """Accept an engine's name or `acp:<command>`; ValueError says why not."""
    if text.startswith(ACP_PREFIX):
        command = line(text.removeprefix(ACP_PREFIX), chars_max=500)
        if command.startswith("-"):
            raise ValueError("acp: and a command, which does not begin with a dash")
        return ACP_PREFIX + command
    return slug(text)


def base_engine(engine: str) -> str:
    """Give the name by which seats are counted: `acp` for `acp:<command>`, else the engine."""
    return ACP_PREFIX[:-1] if engine.startswith(ACP_PREFIX) else engine


def serves_class(
    engine: str, engine_class: EngineClass, classes: Mapping[str, EngineClass] = ENGINE_CLASSES
) -> bool:
    """Tell whether an engine can do the work of a class.

    Reviewing asks for the least, so every engine serves `review-only`; an engine that the table
    does not know counts as an agentic coder.
    """
    if engine == COMMAND or engine_class == "review-only":
        return True
    return classes.get(engine, "agentic-coder") == engine_class


def eligible_engines(
    manifest: Manifest,
    available: Iterable[str],
    classes: Mapping[str, EngineClass] = ENGINE_CLASSES,
) -> tuple[str, ...]:
    """Order the available engines as the job would have them; () when none of them may run it.

    `command` runs the body as a script, so it is never chosen for a job that did not name it.
    """
    present = tuple(available)
    if manifest.engine is not None:
        return (manifest.engine,) if base_engine(manifest.engine) in present else ()
    wanted = manifest.engine_class or "agentic-coder"
    preferred = [
        engine
        for engine in dict.fromkeys(manifest.prefers_engine)
        if base_engine(engine) in present and serves_class(engine, wanted, classes)
    ]
    others = [
        engine
        for engine in sorted(set(present))
        if engine not in {COMMAND, "acp", *preferred} and serves_class(engine, wanted, classes)
    ]
    return (*preferred, *others)

"""Engine names, their classes, and the engines that may run a job."""

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
"""The class of each built-in engine; `command` serves every class and is not listed."""


def engine_name(text: str) -> str:
    """Return an engine's name or `acp:<command>`; ValueError says what is wrong."""
    if text.startswith(ACP_PREFIX):
        command = line(text.removeprefix(ACP_PREFIX), chars_max=500)
        if command.startswith("-"):
            raise ValueError("acp: and a command, which does not begin with a dash")
        return ACP_PREFIX + command
    return slug(text)


def base_engine(engine: str) -> str:
    """Return the engine name by which seats are counted: `acp` for `acp:<command>`."""
    return ACP_PREFIX[:-1] if engine.startswith(ACP_PREFIX) else engine


def serves_class(
    engine: str, engine_class: EngineClass, classes: Mapping[str, EngineClass] = ENGINE_CLASSES
) -> bool:
    """Return whether an engine can do the work of a class.

    Every engine serves `review-only`; an engine that is not in the table counts as an agentic
    coder.
    """
    if engine == COMMAND or engine_class == "review-only":
        return True
    return classes.get(engine, "agentic-coder") == engine_class


def eligible_engines(
    manifest: Manifest,
    available: Iterable[str],
    classes: Mapping[str, EngineClass] = ENGINE_CLASSES,
) -> tuple[str, ...]:
    """Return the available engines that may run the job, preferred ones first.

    `command` runs the body as a script, so only a job that names it gets it.
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

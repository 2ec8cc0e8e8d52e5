"""How persona and task become one text, for engines that take only one."""

from gigafactory.engines.protocol.engine import Work


def prompt_with_persona(work: Work) -> str:
    """The prompt with the persona before it; a session that goes on has heard the persona."""
    if not work.persona or work.session is not None:
        return work.prompt
    return f"{work.persona.strip()}\n\n---\n\n{work.prompt}"

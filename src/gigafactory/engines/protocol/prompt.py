"""Prompts for engines without a separate input for the persona."""

from gigafactory.engines.protocol.engine import Work


def prompt_with_persona(work: Work) -> str:
    """Return the prompt after the persona; a resumed session has the persona already."""
    if not work.persona or work.session is not None:
        return work.prompt
    return f"{work.persona.strip()}\n\n---\n\n{work.prompt}"

"""Arguments that several engines share."""

from collections.abc import Iterator

from gigafactory.engines.protocol.engine import Work


def session_arguments(work: Work) -> Iterator[str]:
    """Yield the model, and the session to resume or to start under its new id."""
    if work.model:
        yield f"--model={work.model}"
    if work.session is not None:
        yield f"--resume={work.session}"
    else:
        yield f"--session-id={work.new_session}"

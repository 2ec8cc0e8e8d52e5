"""What is opened in a thread is closed, also when nobody waits for it any longer."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import ParamSpec, Protocol, TypeVar


class Closes(Protocol):
    """Holds something that must be let go."""

    def close(self) -> None:
        """Let it go."""


Given = ParamSpec("Given")
Opened = TypeVar("Opened", bound=Closes)


async def opened(make: Callable[Given, Opened], *args: Given.args, **more: Given.kwargs) -> Opened:
    """Open something beside the loop; it is the caller's to close.

    A thread cannot be withdrawn: cancelled meanwhile, this closes what the thread still opens.
    """
    opening = asyncio.ensure_future(asyncio.to_thread(make, *args, **more))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        # Why it could not be opened is nobody's news any longer.
        with suppress(Exception):
            (await opening).close()
        raise

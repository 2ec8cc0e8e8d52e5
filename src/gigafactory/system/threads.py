"""Opens resources in threads, and closes them even if the caller is cancelled."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import ParamSpec, Protocol, TypeVar


class Closeable(Protocol):
    """A resource that must be closed."""

    def close(self) -> None:
        """Release it."""


Given = ParamSpec("Given")
Opened = TypeVar("Opened", bound=Closeable)


async def open_in_thread(
    make: Callable[Given, Opened], *args: Given.args, **more: Given.kwargs
) -> Opened:
    """Open a resource in a thread; the caller has to close it.

    A thread cannot be cancelled: if the caller is, this closes what the thread still opens.
    """
    opening = asyncio.ensure_future(asyncio.to_thread(make, *args, **more))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        # After a cancellation it no longer matters why opening failed.
        with suppress(Exception):
            (await opening).close()
        raise

"""The thread that writes: it takes one batch after the other, and nothing else."""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, TypeVar

Asked = TypeVar("Asked")
Given = TypeVar("Given")


class WriterThread(Generic[Asked, Given]):
    """Does what it is asked for in a thread of its own, in order.

    A pool would do the same; with one thread and one caller a commit is some tens of microseconds
    sooner there and back.
    """

    def __init__(self, work: Callable[[Asked], Given], name: str) -> None:
        """Begin to wait for work."""
        self._work = work
        self._asked: SimpleQueue[tuple[Asked, asyncio.Future[Given]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def ask(self, what: Asked) -> asyncio.Future[Given]:
        """What comes of it, for the event loop that asks."""
        answer: asyncio.Future[Given] = asyncio.get_running_loop().create_future()
        self._asked.put((what, answer))
        return answer

    def close(self) -> None:
        """Finish what was asked for, and end."""
        self._asked.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (asked := self._asked.get()) is not None:
            what, answer = asked
            tell = answer.get_loop().call_soon_threadsafe
            try:
                given = self._work(what)
            except BaseException as fault:  # noqa: BLE001 - told to whoever asked
                tell(_fail, answer, fault)
            else:
                tell(_settle, answer, given)


def _settle(answer: "asyncio.Future[Given]", given: Given) -> None:
    if not answer.done():
        answer.set_result(given)


def _fail(answer: "asyncio.Future[Given]", fault: BaseException) -> None:
    if not answer.done():
        answer.set_exception(fault)

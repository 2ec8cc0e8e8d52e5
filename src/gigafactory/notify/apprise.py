"""Notifications through apprise: e-mail, Slack, Discord, ntfy and many others."""

import asyncio
import functools
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

from gigafactory.coordinator.duties.notifier import CannotSend
from gigafactory.domain.errors import Fault, Invalid, Unavailable

SENDING_MAX_S = 60.0
THREADS = 4
EXTRA = "notifications need an extra: pip install 'gigafactory[notify]'"


class AppriseMessenger:
    """Sends messages to the addresses configured in the settings, and to no others."""

    def __init__(self, addresses: Mapping[str, Sequence[str]]) -> None:
        """Use these addresses, by channel name.

        Raises Invalid, without the address, for one that apprise does not support; Unavailable
        without the extra.
        """
        apprise = _apprise()
        # Messages stay literal: no emoji shortcodes, no escape sequences.
        asset = apprise.AppriseAsset(
            app_id="gigafactory", app_desc="Gigafactory", interpret_emojis=False
        )
        # An own pool, so that slow channels do not block other work.
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="notify")
        self._channels: dict[str, Any] = {}
        self._text = apprise.NotifyFormat.TEXT
        faults = []
        for name, urls in addresses.items():
            self._channels[name] = apprise.Apprise(asset=asset)
            for number, url in enumerate(urls, 1):
                if not self._channels[name].add(url):
                    message = f"apprise does not support address {number}; see its list of URLs"
                    faults.append(Fault(f"notify.channels.{name}", message))
        if faults:
            raise Invalid("the configuration", faults)

    async def send(self, channel: str, title: str, body: str) -> None:
        one_by_one = list(self._channels[channel])
        loop = asyncio.get_running_loop()
        sending = [
            loop.run_in_executor(
                self._threads,
                functools.partial(each.notify, title=title, body=body, body_format=self._text),
            )
            for each in one_by_one
        ]
        try:
            async with asyncio.timeout(SENDING_MAX_S):
                results = await asyncio.gather(*sending, return_exceptions=True)
        except TimeoutError:
            raise CannotSend(f"sending took longer than {SENDING_MAX_S:g} s") from None
        # After a partial success, a retry would duplicate the message.
        if not any(each is True for each in results):
            raise CannotSend("no address of the channel accepted the message")


def _apprise() -> ModuleType:
    try:
        import apprise
    except ModuleNotFoundError as missing:
        if missing.name != "apprise":
            raise
        raise Unavailable(EXTRA) from None
    found: ModuleType = apprise
    return found

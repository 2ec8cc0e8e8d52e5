"""Notifications through apprise: e-mail, Slack, Discord, ntfy and many others."""

import asyncio
import functools
import ipaddress
import socket
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

from gigafactory.coordinator.duties.notifier import CannotSend
from gigafactory.domain.errors import Fault, Invalid, Unavailable
from gigafactory.system.ip_addresses import is_forbidden_ip

SENDING_MAX_S = 60.0
THREADS = 4
EXTRA = "notifications need an extra: pip install 'gigafactory[notify]'"


class AppriseMessenger:
    """Sends messages to the addresses configured in the settings, and to no others."""

    def __init__(self, addresses: Mapping[str, Sequence[str]], *, local: bool = False) -> None:
        """Use these addresses, by channel name; with `local`, they may be on this machine.

        Raises Invalid, without the address, for one that apprise does not support; Unavailable
        without the extra.
        """
        apprise = _apprise()
        # Messages stay literal: no emoji shortcodes, no escape sequences. A redirect would lead to
        # an address that nobody has checked.
        asset = apprise.AppriseAsset(
            app_id="gigafactory",
            app_desc="Gigafactory",
            interpret_emojis=False,
            http_redirects=False,
        )
        self._local = local
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
                self._threads, functools.partial(self._send_to, each, title=title, body=body)
            )
            for each in one_by_one
        ]
        try:
            async with asyncio.timeout(SENDING_MAX_S):
                results = await asyncio.gather(*sending, return_exceptions=True)
        except TimeoutError:
            raise CannotSend(f"sending took longer than {SENDING_MAX_S:g} s") from None
        refused = [each for each in results if isinstance(each, CannotSend)]
        if len(refused) == len(results):
            raise refused[0]
        # After a partial success, a retry would duplicate the message.
        if not any(each is True for each in results):
            raise CannotSend("no address of the channel accepted the message")

    def _send_to(self, address: Any, *, title: str, body: str) -> bool:  # noqa: ANN401 - apprise
        if not self._local:
            require_other_machine(address)
        sent: bool = address.notify(title=title, body=body, body_format=self._text)
        return sent


def require_other_machine(address: Any) -> None:  # noqa: ANN401 - apprise
    """Refuse an address on this machine or a metadata service, right before each message.

    Services with a fixed host of their own have none to check. Raises CannotSend.
    """
    if not any("{host}" in template for template in address.templates):
        return
    for host in {getattr(address, "smtp_host", None), address.host} - {None, ""}:
        try:
            answers = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            # Sending reports it.
            continue
        if any(
            is_forbidden_ip(ipaddress.ip_address(str(answer[4][0]).partition("%")[0]))
            for answer in answers
        ):
            raise CannotSend(
                f"{host} is this machine or a metadata service; notify.local = true allows it"
            )


def _apprise() -> ModuleType:
    try:
        import apprise
    except ModuleNotFoundError as missing:
        if missing.name != "apprise":
            raise
        raise Unavailable(EXTRA) from None
    module: ModuleType = apprise
    return module

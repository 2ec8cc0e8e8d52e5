"""The notifier: tells people on their channels of what needs them, each matter at most once."""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

import msgspec
import structlog
from msgspec.structs import replace

from gigafactory.coordinator.core.committer import Committer
from gigafactory.coordinator.core.ports import Clock, Store
from gigafactory.coordinator.insights.attention import AttentionItem, AttentionList
from gigafactory.domain.job.change import FLEET, RecordChange, Stored
from gigafactory.domain.tenancy.access import Caller, Role
from gigafactory.domain.tenancy.notification import (
    ChannelQuietPeriod,
    Notification,
    NotificationState,
    mark_failed,
    mark_sent,
    new_notification,
    notification_key,
    start_quiet_period,
)

WHO = "system:notifier"
SYSTEM = Caller(actor=WHO, role=Role.ADMIN, products=(FLEET,))
ITEMS_MAX = 20
"""So many matters one message tells of."""
TRANSIENT = frozenset({"factory_offline", "engine_unavailable"})
"""What comes and goes with no time of its own: told again once it was over for a while."""
TRANSIENT_KEPT = timedelta(hours=1)
CHARS_MAX = 200
WORDS = {
    "review": "waits for a review",
    "phase": "waits to go on",
    "ship": "is ready to ship",
    "failed": "has failed",
    "unroutable": "can be run by no factory",
    "late": "waits longer than it should",
    "factory_offline": "is offline",
    "engine_unavailable": "has lost an engine",
    "budget": "needs a look",
    "routing_tripped": "was switched back",
}
"""What is told unless a channel wants less; the rest of the list is for whoever looks at it."""

ALL_KINDS = tuple(WORDS)

log = structlog.get_logger()


class CannotSend(Exception):  # noqa: N818 - named after what happened
    """A message that did not go out, and why; never with an address in it."""


class Messenger(Protocol):
    """The way to people. It is given no address by anybody but the operator's settings."""

    async def send(self, channel: str, title: str, body: str) -> None:
        """Send a text.

        Raises CannotSend.
        """


class Channel(msgspec.Struct, frozen=True, kw_only=True):
    """Who wants to hear of what."""

    name: str
    products: tuple[str, ...] = (FLEET,)
    kinds: tuple[str, ...] = ALL_KINDS
    quiet: timedelta = timedelta(minutes=5)
    """After a message, further matters are gathered for so long."""

    def wants(self, item: AttentionItem) -> bool:
        """Whether this matter is told here; one of no product is the whole fleet's."""
        product = item.product_id or FLEET
        return item.kind in self.kinds and (FLEET in self.products or product in self.products)


class Notifier:
    """One step tells what is new; a channel that fails is tried again, and others go on."""

    def __init__(
        self,
        store: Store,
        committer: Committer,
        clock: Clock,
        attention: AttentionList,
        messenger: Messenger,
        channels: Sequence[Channel],
    ) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._attention = attention
        self._messenger = messenger
        self.channels = tuple(channels)

    async def step(self) -> None:
        """Look what needs a person by now, and tell each channel what it has not heard of."""
        matters = {item_key(matter): matter for matter in await self._attention.list(SYSTEM)}
        await asyncio.gather(*(self._serve(channel, matters) for channel in self.channels))

    async def _serve(self, channel: Channel, matters: Mapping[str, AttentionItem]) -> None:
        wanted = {key: matter for key, matter in matters.items() if channel.wants(matter)}
        notices = await self._ensure_notices(channel, wanted)
        now = self._clock.now()
        due = [n for n in notices if n.state is NotificationState.DUE and n.not_before <= now]
        rest = await self._store.record(ChannelQuietPeriod, channel.name)
        if not due or (rest is not None and now < rest.until):
            return
        told = due[:ITEMS_MAX]
        sent = [mark_sent(notice) for notice in told]
        resting = start_quiet_period(channel.name, rest, now + channel.quiet)
        verdict = await self._committer.commit(
            WHO,
            "notify",
            *(RecordChange(before=old, after=new) for old, new in zip(told, sent, strict=True)),
            RecordChange(before=rest, after=resting),
        )
        # Another coordinator was quicker: it tells.
        if isinstance(verdict, Stored):
            await self._send(channel, [wanted[n.matter] for n in told], sent, resting)

    async def _ensure_notices(
        self, channel: Channel, wanted: Mapping[str, AttentionItem]
    ) -> list[Notification]:
        """What is known of these matters on a channel; what is new is noted first."""
        keys = {notification_key(channel.name, key): key for key in wanted}
        known = dict(await self._store.records_by_key(Notification, list(keys)))
        for place, key in keys.items():
            matter, now = wanted[key], self._clock.now()
            before = known.get(place)
            after = _refresh_notice(channel, key, matter, before, now)
            if after is before:
                continue
            verdict = await self._committer.commit(
                WHO, "notice", RecordChange(before=before, after=after)
            )
            if isinstance(verdict, Stored):
                known[place] = after
        return [known[place] for place in keys if place in known]

    async def _send(
        self,
        channel: Channel,
        matters: Sequence[AttentionItem],
        sent: Sequence[Notification],
        resting: ChannelQuietPeriod,
    ) -> None:
        try:
            await self._messenger.send(channel.name, *format_message(matters))
        except CannotSend as why:
            log.warning("nobody was told", channel=channel.name, why=str(why), matters=len(sent))
            now = self._clock.now()
            await self._committer.commit(
                WHO,
                "notify",
                *(RecordChange(before=n, after=mark_failed(n, now=now)) for n in sent),
                RecordChange(before=resting, after=start_quiet_period(channel.name, resting, now)),
            )
        else:
            log.info("told", channel=channel.name, matters=len(sent))


def item_key(matter: AttentionItem) -> str:
    """What a matter is known by, the same for every coordinator; coming again, it is another."""
    if matter.kind == "factory_offline":
        return f"{matter.kind}/{matter.subject}"
    if matter.kind in TRANSIENT:
        reason = hashlib.sha256(matter.reason.encode()).hexdigest()[:16]
        return f"{matter.kind}/{matter.subject}/{reason}"
    return f"{matter.kind}/{matter.subject}/{int(matter.since.timestamp() * 1000)}"


def _refresh_notice(
    channel: Channel, key: str, matter: AttentionItem, before: Notification | None, now: datetime
) -> Notification:
    """The notice of a matter that is there now; a fleeting one is kept while it lasts."""
    fleeting = matter.kind in TRANSIENT
    if before is None:
        product = matter.product_id or FLEET
        if not fleeting:
            return new_notification(channel.name, key, product, matter.since, now=now)
        return new_notification(
            channel.name, key, product, matter.since, now=now, kept=TRANSIENT_KEPT
        )
    if fleeting and before.expires_at - now < TRANSIENT_KEPT / 2:
        return replace(before, expires_at=now + TRANSIENT_KEPT, rev=before.rev + 1)
    return before


def format_message(matters: Sequence[AttentionItem]) -> tuple[str, str]:
    """The title and the text of a message; what others wrote is in one line each, and short."""
    lines = [_line(matter) for matter in matters]
    title = lines[0] if len(lines) == 1 else f"{len(lines)} matters need you"
    told = [
        f"{each}\n  {_short(matter.reason)}" if matter.reason else each
        for each, matter in zip(lines, matters, strict=True)
    ]
    return _short(title), "\n".join([*told, "", "`aq attention` lists all, with what can be done."])


def _line(matter: AttentionItem) -> str:
    where = f"{matter.product_id}: " if matter.product_id else ""
    words = WORDS.get(matter.kind, matter.kind)
    about = f" ({matter.subject})" if matter.product_id not in {None, matter.subject} else ""
    return f"{where}{_short(matter.title)}{about} {words}"


def _short(text: str) -> str:
    plain = "".join(char for char in " ".join(text.split()) if char.isprintable())
    return plain if len(plain) <= CHARS_MAX else f"{plain[: CHARS_MAX - 1]}…"

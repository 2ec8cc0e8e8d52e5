"""The notifier: sends each attention item to people's channels, at most once."""

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

ACTOR = "system:notifier"
SYSTEM = Caller(actor=ACTOR, role=Role.ADMIN, products=(FLEET,))
ITEMS_MAX = 20
"""Attention items per message at most."""
TRANSIENT = frozenset({"factory_offline", "engine_unavailable"})
"""Kinds that come and go without a start time: sent again after they were gone for a while."""
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
    "factory_twin": "runs twice",
    "engine_unavailable": "has lost an engine",
    "budget": "needs a look",
    "routing_tripped": "was switched back",
}
"""Kinds that are sent by default, with their wording; other kinds are only listed."""

ALL_KINDS = tuple(WORDS)

log = structlog.get_logger()


class CannotSend(Exception):  # noqa: N818 - named after what happened
    """A message could not be sent; the reason never contains an address."""


class Messenger(Protocol):
    """Sends messages; addresses come only from the operator's settings."""

    async def send(self, channel: str, title: str, body: str) -> None:
        """Send a message to a channel.

        Raises CannotSend.
        """


class Channel(msgspec.Struct, frozen=True, kw_only=True):
    """A notification channel and the items it receives."""

    name: str
    products: tuple[str, ...] = (FLEET,)
    kinds: tuple[str, ...] = ALL_KINDS
    quiet: timedelta = timedelta(minutes=5)
    """After a message, new items are collected for this long."""

    def wants(self, item: AttentionItem) -> bool:
        """Whether the channel receives this item; an item without a product concerns the fleet."""
        product = item.product_id or FLEET
        return item.kind in self.kinds and (FLEET in self.products or product in self.products)


class Notifier:
    """The duty that sends new attention items; a failed channel is retried independently."""

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
        """Send every channel the attention items that it has not received yet."""
        items = {item_key(item): item for item in await self._attention.list(SYSTEM)}
        await asyncio.gather(*(self._serve(channel, items) for channel in self.channels))

    async def _serve(self, channel: Channel, items: Mapping[str, AttentionItem]) -> None:
        wanted = {key: item for key, item in items.items() if channel.wants(item)}
        notices = await self._ensure_notices(channel, wanted)
        now = self._clock.now()
        due = [n for n in notices if n.state is NotificationState.DUE and n.not_before <= now]
        rest = await self._store.record(ChannelQuietPeriod, channel.name)
        if not due or (rest is not None and now < rest.until):
            return
        batch = due[:ITEMS_MAX]
        sent = [mark_sent(notice) for notice in batch]
        resting = start_quiet_period(channel.name, rest, now + channel.quiet)
        verdict = await self._committer.commit(
            ACTOR,
            "notify",
            *(RecordChange(before=old, after=new) for old, new in zip(batch, sent, strict=True)),
            RecordChange(before=rest, after=resting),
        )
        # Otherwise another coordinator was faster, and sends it.
        if isinstance(verdict, Stored):
            await self._send(channel, [wanted[n.matter] for n in batch], sent, resting)

    async def _ensure_notices(
        self, channel: Channel, wanted: Mapping[str, AttentionItem]
    ) -> list[Notification]:
        """Return the notices of these items on a channel, after creating missing ones."""
        keys = {notification_key(channel.name, key): key for key in wanted}
        existing = dict(await self._store.records_by_key(Notification, list(keys)))
        for place, key in keys.items():
            item, now = wanted[key], self._clock.now()
            before = existing.get(place)
            after = _refresh_notice(channel, key, item, before, now)
            if after is before:
                continue
            verdict = await self._committer.commit(
                ACTOR, "notice", RecordChange(before=before, after=after)
            )
            if isinstance(verdict, Stored):
                existing[place] = after
        return [existing[place] for place in keys if place in existing]

    async def _send(
        self,
        channel: Channel,
        items: Sequence[AttentionItem],
        sent: Sequence[Notification],
        resting: ChannelQuietPeriod,
    ) -> None:
        try:
            await self._messenger.send(channel.name, *format_message(items))
        except CannotSend as why:
            log.warning("notification failed", channel=channel.name, why=str(why), items=len(sent))
            now = self._clock.now()
            await self._committer.commit(
                ACTOR,
                "notify",
                *(RecordChange(before=n, after=mark_failed(n, now=now)) for n in sent),
                RecordChange(before=resting, after=start_quiet_period(channel.name, resting, now)),
            )
        else:
            log.info("notification sent", channel=channel.name, items=len(sent))


def item_key(item: AttentionItem) -> str:
    """Return an item's key, equal on every coordinator; an item that recurs gets a new key."""
    if item.kind == "factory_offline":
        return f"{item.kind}/{item.subject}"
    if item.kind in TRANSIENT:
        reason = hashlib.sha256(item.reason.encode()).hexdigest()[:16]
        return f"{item.kind}/{item.subject}/{reason}"
    return f"{item.kind}/{item.subject}/{int(item.since.timestamp() * 1000)}"


def _refresh_notice(
    channel: Channel, key: str, item: AttentionItem, before: Notification | None, now: datetime
) -> Notification:
    """Return the notice of a current item; transient ones are kept while they last."""
    transient = item.kind in TRANSIENT
    if before is None:
        product = item.product_id or FLEET
        if not transient:
            return new_notification(channel.name, key, product, item.since, now=now)
        return new_notification(
            channel.name, key, product, item.since, now=now, retention=TRANSIENT_KEPT
        )
    if transient and before.expires_at - now < TRANSIENT_KEPT / 2:
        return replace(before, expires_at=now + TRANSIENT_KEPT, rev=before.rev + 1)
    return before


def format_message(items: Sequence[AttentionItem]) -> tuple[str, str]:
    """Return the title and body of a message; foreign text is shortened to one line each."""
    lines = [_line(item) for item in items]
    title = lines[0] if len(lines) == 1 else f"{len(lines)} items need your attention"
    texts = [
        f"{each}\n  {_short(item.reason)}" if item.reason else each
        for each, item in zip(lines, items, strict=True)
    ]
    return _short(title), "\n".join(
        [*texts, "", "`aq attention` lists all items and their actions."]
    )


def _line(item: AttentionItem) -> str:
    where = f"{item.product_id}: " if item.product_id else ""
    words = WORDS.get(item.kind, item.kind)
    about = f" ({item.subject})" if item.product_id not in {None, item.subject} else ""
    return f"{where}{_short(item.title)}{about} {words}"


def _short(text: str) -> str:
    plain = "".join(char for char in " ".join(text.split()) if char.isprintable())
    return plain if len(plain) <= CHARS_MAX else f"{plain[: CHARS_MAX - 1]}…"

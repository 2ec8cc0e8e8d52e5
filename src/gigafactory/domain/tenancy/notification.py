"""Notifications: which matters were sent on which channel, so that each is sent only once."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar

import msgspec
from msgspec.structs import replace

from gigafactory.domain.job.change import FLEET

TRIES_MAX = 5
RETRY_AFTER = timedelta(seconds=30)
"""Back-off after the first failure; it doubles with each further one."""
KEPT_FOR = timedelta(days=30)
NEWS_FOR = timedelta(days=1)
"""A matter older than this when first seen is not sent, so that a new channel is not flooded."""


class NotificationState(StrEnum):
    """The delivery state of a notification."""

    DUE = "due"
    SENT = "said"
    """Written before sending, so that a crash in between sends it at most once."""
    GIVEN_UP = "given_up"


class Notification(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The notification of one matter on one channel."""

    kind: ClassVar[str] = "notice"

    channel: str
    matter: str
    """The id of the matter; the same on every coordinator."""
    product_id: str
    state: NotificationState = NotificationState.DUE
    tries: int = 0
    not_before: datetime
    expires_at: datetime
    rev: int = 1

    @property
    def key(self) -> str:
        """The record key: one notification per channel and matter."""
        return notification_key(self.channel, self.matter)


def notification_key(channel: str, matter: str) -> str:
    """Return the record key of a notification."""
    return f"{channel}/{matter}"


class ChannelQuietPeriod(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The end of a channel's quiet period; extended in the commit that sends a message."""

    kind: ClassVar[str] = "channel-rest"
    expires_at: ClassVar[None] = None
    product_id: ClassVar[str] = FLEET

    channel: str
    until: datetime
    rev: int = 1

    @property
    def key(self) -> str:
        """The record key: the channel."""
        return self.channel


def new_notification(
    channel: str,
    matter: str,
    product_id: str,
    since: datetime,
    *,
    now: datetime,
    retention: timedelta = KEPT_FOR,
) -> Notification:
    """Return the notification of a newly seen matter; an old matter counts as sent."""
    old = now - since > NEWS_FOR
    return Notification(
        channel=channel,
        matter=matter,
        product_id=product_id,
        state=NotificationState.SENT if old else NotificationState.DUE,
        not_before=now,
        expires_at=now + retention,
    )


def mark_sent(notice: Notification) -> Notification:
    """Return the notification marked as sent; to be stored before sending."""
    return replace(notice, state=NotificationState.SENT, tries=notice.tries + 1, rev=notice.rev + 1)


def mark_failed(notice: Notification, *, now: datetime) -> Notification:
    """Return the notification after a failed delivery: retried later, then given up."""
    pause = RETRY_AFTER * 2 ** (notice.tries - 1)
    state = NotificationState.GIVEN_UP if notice.tries >= TRIES_MAX else NotificationState.DUE
    return replace(notice, state=state, not_before=now + pause, rev=notice.rev + 1)


def start_quiet_period(
    channel: str, before: ChannelQuietPeriod | None, until: datetime
) -> ChannelQuietPeriod:
    """Return the channel's quiet period with a new end."""
    return ChannelQuietPeriod(channel=channel, until=until, rev=before.rev + 1 if before else 1)

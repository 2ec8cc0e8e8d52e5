"""Notices: what a channel was told of, so that nobody hears of a matter twice."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar

import msgspec
from msgspec.structs import replace

from gigafactory.domain.job.change import FLEET

TRIES_MAX = 5
AGAIN_AFTER = timedelta(seconds=30)
"""After the first failure; twice as long after each further one."""
KEPT = timedelta(days=30)
NEWS_FOR = timedelta(days=1)
"""What is older when it is first seen is known by now: a new channel is not flooded."""


class NoticeState(StrEnum):
    """How far a notice is."""

    DUE = "due"
    SAID = "said"
    """Written before it is sent: whoever dies in between has said it at most once."""
    GIVEN_UP = "given_up"


class Notice(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One matter on one channel."""

    kind: ClassVar[str] = "notice"

    channel: str
    matter: str
    """What it is about: the same for every coordinator that sees it."""
    product_id: str
    state: NoticeState = NoticeState.DUE
    tries: int = 0
    not_before: datetime
    expires_at: datetime
    rev: int = 1

    @property
    def key(self) -> str:
        """One a channel and matter."""
        return notice_key(self.channel, self.matter)


def notice_key(channel: str, matter: str) -> str:
    """Where a notice is kept."""
    return f"{channel}/{matter}"


class ChannelRest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Until when a channel is left in peace; whoever sends moves it on in the same commit."""

    kind: ClassVar[str] = "channel-rest"
    expires_at: ClassVar[None] = None
    product_id: ClassVar[str] = FLEET

    channel: str
    until: datetime
    rev: int = 1

    @property
    def key(self) -> str:
        """One a channel."""
        return self.channel


def noted(
    channel: str,
    matter: str,
    product_id: str,
    since: datetime,
    *,
    now: datetime,
    kept: timedelta = KEPT,
) -> Notice:
    """A matter that is seen for the first time; what is no news counts as said."""
    old = now - since > NEWS_FOR
    return Notice(
        channel=channel,
        matter=matter,
        product_id=product_id,
        state=NoticeState.SAID if old else NoticeState.DUE,
        not_before=now,
        expires_at=now + kept,
    )


def said(notice: Notice) -> Notice:
    """The notice that is about to be sent."""
    return replace(notice, state=NoticeState.SAID, tries=notice.tries + 1, rev=notice.rev + 1)


def not_sent(notice: Notice, *, now: datetime) -> Notice:
    """The notice that could not be sent: it is tried again later, a few times."""
    pause = AGAIN_AFTER * 2 ** (notice.tries - 1)
    state = NoticeState.GIVEN_UP if notice.tries >= TRIES_MAX else NoticeState.DUE
    return replace(notice, state=state, not_before=now + pause, rev=notice.rev + 1)


def rested(channel: str, before: ChannelRest | None, until: datetime) -> ChannelRest:
    """The peace of a channel from now on."""
    return ChannelRest(channel=channel, until=until, rev=before.rev + 1 if before else 1)

"""What a channel was told of."""

from datetime import timedelta

from gigafactory.domain.tenancy.notification import (
    AGAIN_AFTER,
    NEWS_FOR,
    TRIES_MAX,
    NoticeState,
    not_sent,
    noted,
    rested,
    said,
)
from tests.support.builders import NOON, after


def test_a_matter_is_due_when_it_is_new_and_no_news_when_it_is_old() -> None:
    new = noted("ops", "review/job-1/0", "notes", NOON, now=after(60))
    assert (new.state, new.key) == (NoticeState.DUE, "ops/review/job-1/0")
    old = noted("ops", "m", "notes", NOON - NEWS_FOR - timedelta(seconds=1), now=NOON)
    assert old.state is NoticeState.SAID


def test_what_could_not_be_sent_is_tried_again_more_and_more_rarely_and_then_given_up() -> None:
    notice = noted("ops", "m", "notes", NOON, now=NOON)
    pauses = []
    for _ in range(TRIES_MAX - 1):
        notice = not_sent(said(notice), now=NOON)
        assert notice.state is NoticeState.DUE
        pauses.append((notice.not_before - NOON) / AGAIN_AFTER)
    assert pauses == [1, 2, 4, 8]
    assert not_sent(said(notice), now=NOON).state is NoticeState.GIVEN_UP


def test_a_channel_rests_once_at_a_time() -> None:
    first = rested("ops", None, after(10))
    assert (first.key, first.rev) == ("ops", 1)
    assert rested("ops", first, after(20)).rev == 2

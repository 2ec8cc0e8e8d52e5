"""What a channel was told of."""

from datetime import timedelta

from gigafactory.domain.tenancy.notification import (
    NEWS_FOR,
    RETRY_AFTER,
    TRIES_MAX,
    NotificationState,
    mark_failed,
    mark_sent,
    new_notification,
    start_quiet_period,
)
from tests.support.builders import NOON, after


def test_a_matter_is_due_when_it_is_new_and_no_news_when_it_is_old() -> None:
    new = new_notification("ops", "review/job-1/0", "notes", NOON, now=after(60))
    assert (new.state, new.key) == (NotificationState.DUE, "ops/review/job-1/0")
    old = new_notification("ops", "m", "notes", NOON - NEWS_FOR - timedelta(seconds=1), now=NOON)
    assert old.state is NotificationState.SENT


def test_what_could_not_be_sent_is_tried_again_more_and_more_rarely_and_then_given_up() -> None:
    notice = new_notification("ops", "m", "notes", NOON, now=NOON)
    pauses = []
    for _ in range(TRIES_MAX - 1):
        notice = mark_failed(mark_sent(notice), now=NOON)
        assert notice.state is NotificationState.DUE
        pauses.append((notice.not_before - NOON) / RETRY_AFTER)
    assert pauses == [1, 2, 4, 8]
    assert mark_failed(mark_sent(notice), now=NOON).state is NotificationState.GIVEN_UP


def test_a_channel_rests_once_at_a_time() -> None:
    first = start_quiet_period("ops", None, after(10))
    assert (first.key, first.rev) == ("ops", 1)
    assert start_quiet_period("ops", first, after(20)).rev == 2

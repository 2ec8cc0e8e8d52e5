"""Notifications of a channel: sent once, retried, and quiet periods."""

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


def test_new_matter_is_due_and_an_old_one_is_marked_sent() -> None:
    new = new_notification("ops", "review/job-1/0", "notes", NOON, now=after(60))
    assert (new.state, new.key) == (NotificationState.DUE, "ops/review/job-1/0")
    old = new_notification("ops", "m", "notes", NOON - NEWS_FOR - timedelta(seconds=1), now=NOON)
    assert old.state is NotificationState.SENT


def test_failed_notification_is_retried_with_growing_pauses_then_given_up() -> None:
    notice = new_notification("ops", "m", "notes", NOON, now=NOON)
    pauses = []
    for _ in range(TRIES_MAX - 1):
        notice = mark_failed(mark_sent(notice), now=NOON)
        assert notice.state is NotificationState.DUE
        pauses.append((notice.not_before - NOON) / RETRY_AFTER)
    assert pauses == [1, 2, 4, 8]
    assert mark_failed(mark_sent(notice), now=NOON).state is NotificationState.GIVEN_UP


def test_quiet_period_of_a_channel_replaces_the_previous_one() -> None:
    first = start_quiet_period("ops", None, after(10))
    assert (first.key, first.rev) == ("ops", 1)
    assert start_quiet_period("ops", first, after(20)).rev == 2

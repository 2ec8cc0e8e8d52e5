"""Checks of 2.3, 2.4, 3.5, 3.6, 3.11 and 9.2: single rules, each on the whole history."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from gigafactory.domain.job.change import FeedEntry
from tests.simulation.history import Exchange
from tests.simulation.job_histories import JobHistory
from tests.simulation.poison_checks import poison_findings

EXCLUDED_FOR = timedelta(seconds=30)
CLOCK_SKEW_MAX = timedelta(seconds=1)
HANDED_BACK = {"released", "rate_limited", "preempted"}
DECISIONS = {"approve", "ship", "reject", "request-changes"}

FirstRequests = Mapping[tuple[str, str], Exchange]
Instances = Mapping[tuple[str, int], str]
"""The process that each epoch of a job was granted to."""


def rule_findings(
    entries: Sequence[FeedEntry],
    exchanges: Sequence[Exchange],
    histories: Mapping[str, JobHistory],
    first: FirstRequests,
    granted: Instances,
) -> Iterator[str]:
    """Check each rule in turn."""
    yield from exclusion_findings(histories)
    yield from decision_findings(exchanges, histories, first)
    yield from dependency_findings(entries, histories)
    yield from key_findings(exchanges, first)
    yield from instance_findings(exchanges, histories, granted)
    yield from offer_findings(exchanges, histories)
    yield from poison_findings(exchanges, histories, granted)


def exclusion_findings(histories: Mapping[str, JobHistory]) -> Iterator[str]:
    """Check 2.3: a factory that gave a job back does not get it again at once."""
    for history in histories.values():
        excluded: dict[str, datetime] = {}
        held: int | None = None
        for state in history.states:
            event, data = state.event, state.event.data
            if event.type == "requeued":
                excluded.clear()
            elif event.type in {"offered", "assigned"}:
                until = excluded.get(data["factoryId"], event.at)
                if event.at < until - CLOCK_SKEW_MAX:
                    to = data["factoryId"]
                    yield f"2.3: {history.title} is {event.type} to {to}, excluded till {until:%X}"
            elif event.type == "offer_expired" or (
                event.type in HANDED_BACK
                and held == data["epoch"]
                and event.actor.startswith("factory:")
            ):
                excluded[data["factoryId"]] = event.at + EXCLUDED_FOR
            held = state.live.epoch if state.live else None


def decision_findings(
    exchanges: Sequence[Exchange], histories: Mapping[str, JobHistory], first: FirstRequests
) -> Iterator[str]:
    """Check 2.4: a decision is accepted only on the newest commit."""
    for exchange in exchanges:
        if exchange.verb not in DECISIONS or not exchange.accepted or _repeated(exchange, first):
            continue
        commit = exchange.request["action_request"].commit
        history = histories[exchange.request["job"]]
        state = history.at(exchange.response.seq)
        if commit is not None and state is not None and state.checkpoint != commit:
            yield f"2.4: {exchange.verb} of {commit} is accepted, but {state.checkpoint} is newer"


def dependency_findings(
    entries: Sequence[FeedEntry], histories: Mapping[str, JobHistory]
) -> Iterator[str]:
    """Check 3.5: a job is unblocked only when its dependencies are met."""
    for entry in entries:
        event, job = entry.event, entry.job
        if job is None or event.type != "unblocked":
            continue
        met = {"shipped", "testing"} if job.terms.deps_mode == "soft" else {"shipped"}
        state = histories[job.id].at(event.seq)
        for dep in job.deps:
            before = [s for s in histories[dep].states if state and s.moment < state.moment]
            if not before or before[-1].stage not in met:
                yield f"3.5: {job.title} is unblocked, but {histories[dep].title} is not there yet"


def key_findings(exchanges: Sequence[Exchange], first: FirstRequests) -> Iterator[str]:
    """Check 3.6: a key belongs to one request."""
    for exchange in exchanges:
        if exchange.key is None or not exchange.accepted:
            continue
        known = first[exchange.actor, exchange.key]
        same = (known.verb, known.request) == (exchange.verb, exchange.request)
        if known.accepted and not same:
            yield f"3.6: key {exchange.key} of {exchange.actor} serves two requests"


def instance_findings(
    exchanges: Sequence[Exchange], histories: Mapping[str, JobHistory], granted: Instances
) -> Iterator[str]:
    """Check 3.11: leases that a new process does not take up end with its heartbeat."""
    heartbeats = [e for e in exchanges if e.verb == "heartbeat" and e.accepted]
    for exchange in heartbeats:
        request: Any = exchange.request
        first = min(e.requested for e in heartbeats if e.request["instance"] == request["instance"])
        if any(
            other.request["factory"] == request["factory"]
            and other.request["instance"] != request["instance"]
            and other.requested < (exchange.served or 0)
            and first < (other.served or 0)
            for other in heartbeats
        ):
            # Another process, which may be the newer one, has announced itself by now.
            continue
        for history in histories.values():
            earlier = [s for s in history.states if s.moment < (exchange.served or 0)]
            live = earlier[-1].live if earlier else None
            if live is None or live.factory != request["factory"]:
                continue
            process = granted.get((history.job_id, live.epoch), request["instance"])
            taken_up = [s for s in earlier if s.event.type == "taken_up"]
            if (
                process != request["instance"]
                and history.job_id not in request["running"]
                and history.granted(live.epoch) < exchange.requested
                and not any(s.event.data["epoch"] == live.epoch for s in taken_up)
            ):
                yield f"3.11: {history.title} stays with {process} after {request['instance']}"


def offer_findings(
    exchanges: Sequence[Exchange], histories: Mapping[str, JobHistory]
) -> Iterator[str]:
    """Check 9.2: only the factory that was offered a job accepts the offer."""
    for exchange in exchanges:
        if exchange.verb != "accept" or not exchange.accepted:
            continue
        history = histories[exchange.request["job"]]
        granted = history.granted(exchange.response.lease.epoch)
        offered = [s for s in history.states if s.event.type == "offered" and s.moment < granted]
        newest = offered[-1].event.data if offered else {}
        accepted = (exchange.request["offer"], exchange.request["factory"])
        standing = (newest.get("offerId"), newest.get("factoryId"))
        if accepted != standing:
            yield f"9.2: {history.title}: offer and factory {accepted} accepted, not {standing}"


def _repeated(exchange: Exchange, first: FirstRequests) -> bool:
    return bool(exchange.key) and first[exchange.actor, exchange.key or ""] is not exchange

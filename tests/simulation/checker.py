"""The checker: compares responses to clients and the event log with the promises."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from gigafactory.coordinator.dispatch.grants import Grant
from gigafactory.coordinator.jobs.submissions import SubmissionResult
from gigafactory.domain.job.job import Job
from tests.simulation.budget_checks import budget_findings
from tests.simulation.composite_checks import composite_findings
from tests.simulation.factories import MachineSpec
from tests.simulation.history import Exchange
from tests.simulation.job_histories import HeldLease, JobHistory, findings_in, read_histories
from tests.simulation.preemption_checks import preemption_findings
from tests.simulation.rule_checks import rule_findings
from tests.simulation.simulation import Simulation
from tests.simulation.time_checks import delay_findings, gap_findings, preempted_findings

GRANT_VERBS = {"claim", "accept"}
WORKER_VERBS = {"report", "release", "renew", "log"}
EVENT_VERBS = {"report", "release"}
TOKEN_END_VERBS = {"rotate", "revoke", "deregister"}


def check(simulation: Simulation) -> list[str]:
    """Return all findings about a history; empty if every promise holds."""
    return list(Checker(simulation).findings())


class Checker:
    """All checks on one history; shares no rule with the domain."""

    def __init__(self, simulation: Simulation) -> None:
        """Read the history once."""
        self._simulation = simulation
        self._exchanges = simulation.history.exchanges
        self._entries = simulation.store._events  # noqa: SLF001 - the checker reads internal state
        self._histories = read_histories(self._entries, simulation.history.commits)
        self._first: dict[tuple[str, str], Exchange] = {}
        """The first request with each key; repeated requests may get its response."""
        for exchange in self._exchanges:
            self._first.setdefault((exchange.actor, exchange.key or ""), exchange)
        self._specs: dict[str, MachineSpec] = {
            m.id.partition(".")[0]: m.spec for m in simulation.machines
        }

    def findings(self) -> Iterator[str]:
        """Check every promise in turn."""
        yield from self._simulation.history.errors
        expiries = self._received_expiries()
        for history in self._histories.values():
            yield from findings_in(history, expiries)
        yield from self._acknowledged()
        yield from self._workers()
        yield from self._renewals()
        yield from gap_findings(self._simulation, self._histories, expiries)
        yield from delay_findings(self._simulation)
        yield from preempted_findings(self._simulation, self._histories)
        yield from self._keys()
        yield from self._names()
        yield from self._responses()
        yield from self._order()
        yield from self._halts()
        yield from self._drains()
        yield from self._tokens()
        yield from self._capacity()
        yield from preemption_findings(self._histories, self._entries)
        yield from budget_findings(self._simulation.store, self._entries)
        yield from composite_findings(
            self._simulation.store, self._histories, self._simulation.dags
        )
        yield from rule_findings(
            self._entries, self._exchanges, self._histories, self._first, self._instances()
        )
        yield from self._followers()
        yield from self._end()

    def _instances(self) -> dict[tuple[str, int], str]:
        """Return the process that each lease was granted to, as far as clients were told."""
        return {
            (grant.job.id, grant.lease.epoch): grant.lease.instance_id
            for exchange in self._exchanges
            for grant in _grants(exchange)
        }

    def _received_expiries(self) -> dict[tuple[str, int], datetime]:
        """Return the latest expiry that clients received for each lease."""
        expiries: dict[tuple[str, int], datetime] = {}
        for exchange in self._exchanges:
            for grant in _grants(exchange):
                place = (grant.job.id, grant.lease.epoch)
                expiries[place] = max(
                    expiries.get(place, grant.lease.expires_at), grant.lease.expires_at
                )
            if exchange.verb == "renew" and exchange.accepted:
                place = (exchange.request["job"], exchange.request["epoch"])
                expiries[place] = max(expiries.get(place, exchange.response), exchange.response)
        return expiries

    def _acknowledged(self) -> Iterator[str]:
        """Check promise 6: everything acknowledged is in the log; and 16: with its checkpoint."""
        for exchange in self._exchanges:
            for job in _jobs(exchange):
                history = self._histories.get(job.id)
                state = history.at(job.seq) if history else None
                if state is None:
                    yield f"6: {exchange.verb} returned {job.title} at {job.seq}; not in the log"
                elif state.stage != job.stage:
                    yield (
                        f"6: {exchange.verb} returned {job.title} as {job.stage} at {job.seq},"
                        f" but it is {state.stage} in the log"
                    )
                elif job.head != state.checkpoint:
                    yield (
                        f"16: {exchange.verb} returned {job.title} with checkpoint {job.head},"
                        f" but {state.checkpoint} was the last accepted one"
                    )

    def _workers(self) -> Iterator[str]:
        """Check promises 3 and 4: a report is accepted only under the live lease that it names."""
        for exchange in self._exchanges:
            if (
                "epoch" not in exchange.request
                or exchange.verb not in EVENT_VERBS
                or not exchange.accepted
            ):
                continue
            history = self._histories[exchange.request["job"]]
            state = history.at(exchange.response.seq)
            actor, epoch = exchange.actor.removeprefix("factory:"), exchange.request["epoch"]
            before = history.before(state) if state else None
            holders = [h for s in (state, before) if s for h in (s.live, *s.ending) if h]
            if not any((h.factory, h.epoch) == (actor, epoch) for h in holders):
                yield f"4: {history.title}: {exchange.verb} of {actor} at epoch {epoch} is accepted"

    def _renewals(self) -> Iterator[str]:
        """Check promise 4 for requests without an event, and 18: renewals never shorten a lease."""
        last: dict[tuple[str, int], Exchange] = {}
        granted = {
            (grant.job.id, grant.lease.epoch): grant.lease.expires_at
            for exchange in self._exchanges
            for grant in _grants(exchange)
        }
        for exchange in sorted(self._exchanges, key=lambda m: m.requested):
            if (
                exchange.verb not in {"renew", "log"}
                or not exchange.accepted
                or exchange.served is None
            ):
                continue
            if exchange.key and self._first[exchange.actor, exchange.key] is not exchange:
                continue
            history = self._histories[exchange.request["job"]]
            actor, epoch = exchange.actor.removeprefix("factory:"), exchange.request["epoch"]
            if not history.live_between(actor, epoch, exchange.requested, exchange.served):
                yield f"4: {history.title}: {exchange.verb} of {actor} at epoch {epoch} is accepted"
            if exchange.verb == "log" or history.preempted:
                continue
            if exchange.response < granted.get((history.job_id, epoch), exchange.response):
                yield f"18: renewing {history.title} shortened the granted lease"
            earlier = last.get((history.job_id, epoch))
            if (
                earlier
                and (earlier.served or 0) < exchange.requested
                and exchange.response < earlier.response
            ):
                yield f"18: renewing {history.title} shortened its lease"
            last[history.job_id, epoch] = exchange

    def _names(self) -> Iterator[str]:
        """Check 3.5: a name belongs to at most one unfinished job."""
        owners: dict[tuple[str, str], str] = {}
        states = [(history, s) for history in self._histories.values() for s in history.commits()]
        # The writes of one commit are simultaneous: names that it frees are free for it.
        for history, state in sorted(states, key=lambda found: (found[1].moment, found[1].open)):
            place = (history.product, history.name)
            if state.open and owners.setdefault(place, history.job_id) != history.job_id:
                yield f"3.5: {history.name} names {owners[place]} and {history.job_id}"
            elif not state.open and owners.get(place) == history.job_id:
                del owners[place]

    def _keys(self) -> Iterator[str]:
        """Check promise 7: one idempotency key, one job; one request, one job."""
        owners: dict[tuple[str, str], str] = {}
        tags: Counter[str] = Counter()
        for entry in self._entries:
            event, job = entry.event, entry.job
            if job is None or event.type not in {"submitted", "superseded"}:
                continue
            place = (job.product_id, job.idempotency_key or "")
            if event.type == "superseded" and owners.get(place) == job.id:
                del owners[place]
            if event.type == "submitted":
                tags[job.title] += event.actor != "system:cron"
                if job.idempotency_key and place in owners:
                    yield f"7: key {place} created {owners[place]} and {job.id}"
                if job.idempotency_key:
                    owners[place] = job.id
        yield from (f"7: {tag} was submitted {n} times" for tag, n in tags.items() if n > 1)

    def _responses(self) -> Iterator[str]:
        """Check promise 17: repeated requests get the same response; a claim's may still grow.

        Each lease of a claim is granted in its own commit, and a retry may arrive in between.
        """
        first: dict[tuple[str, str, str], bytes] = {}
        granted: dict[tuple[str, str], set[str]] = defaultdict(set)
        for exchange in sorted(self._exchanges, key=lambda m: m.served or 0):
            if exchange.key is None or not exchange.accepted:
                continue
            if exchange.verb == "claim":
                runs = {grant.lease.run_id for grant in _grants(exchange)}
                if runs and not runs >= granted[exchange.actor, exchange.key]:
                    yield f"17: {exchange.verb} with key {exchange.key} got other leases"
                granted[exchange.actor, exchange.key] |= runs
                continue
            encoded = msgspec.json.encode(exchange.response)
            if first.setdefault((exchange.actor, exchange.verb, exchange.key), encoded) != encoded:
                yield f"17: {exchange.verb} with key {exchange.key} got two responses"

    def _order(self) -> Iterator[str]:
        """Check promise 19: no later response, unless repeated, shows an older version of a job."""
        by_job: dict[str, list[tuple[int, int, Exchange, Job]]] = defaultdict(list)
        for exchange in self._exchanges:
            if exchange.served is not None:
                for job in _jobs(exchange):
                    by_job[job.id].append((exchange.requested, exchange.served, exchange, job))
        for responses in by_job.values():
            by_end = sorted(responses, key=lambda a: a[1])
            newest, place = (0, 0), 0
            for requested, _, exchange, job in sorted(responses, key=lambda a: a[0]):
                while place < len(by_end) and by_end[place][1] < requested:
                    newest = max(newest, (by_end[place][3].seq, by_end[place][3].rev))
                    place += 1
                repeated = (
                    exchange.key and self._first[exchange.actor, exchange.key] is not exchange
                )
                if (job.seq, job.rev) < newest and not repeated:
                    yield f"19: {exchange.verb} returned {job.title} at {job.seq}, after {newest}"

    def _halts(self) -> Iterator[str]:
        """Check promise 13: there is no grant and no offer after a halt is acknowledged."""
        for history in self._histories.values():
            for state in history.states:
                if state.event.type in {"assigned", "offered"} and self._halted(
                    history, state.moment
                ):
                    yield f"13: {history.title} is {state.event.type} after a halt was acknowledged"

    def _halted(self, history: JobHistory, moment: int) -> bool:
        for target in ("*", history.product):
            mine = [m for m in self._exchanges if m.request.get("target") == target]
            resumes = [m for m in mine if m.verb == "resume" and m.requested < moment]
            for halt in mine:
                # A duplicate request gets the stored response, whatever has happened since.
                if halt.verb != "halt" or not halt.accepted or halt.duplicate:
                    continue
                # A resume that was concurrent with the halt may have taken effect after it.
                undone = any((m.served or moment) > halt.requested for m in resumes)
                if (halt.served or 0) < moment and not undone:
                    return True
        return False

    def _drains(self) -> Iterator[str]:
        """Check 3.9: a factory gets no new job after its drain is acknowledged."""
        for exchange in self._exchanges:
            if exchange.verb != "drain" or not exchange.accepted or exchange.duplicate:
                continue
            actor = exchange.request["factory"]
            over = [
                m.requested
                for m in self._exchanges
                if m.verb == "undrain"
                and m.request["factory"] == actor
                and m.served
                and m.served > exchange.requested
            ]
            for history in self._histories.values():
                for state in history.states:
                    taken = (
                        state.event.type == "assigned" and state.event.data["factoryId"] == actor
                    )
                    if taken and (exchange.served or 0) < state.moment < min(over, default=10**9):
                        yield f"3.9: {actor} got {history.title} after its drain was acknowledged"

    def _tokens(self) -> Iterator[str]:
        """Check promise 14: an ended token gets nothing, other tokens nothing out of scope."""
        ended: dict[str, Exchange] = {}
        for exchange in self._exchanges:
            if exchange.verb in TOKEN_END_VERBS and exchange.accepted:
                ended.setdefault(exchange.request["ends"], exchange)
        for exchange in self._exchanges:
            for grant in _grants(exchange):
                spec = self._specs[grant.lease.factory_id.partition(".")[0]]
                if not {"*", grant.job.product_id} & set(spec.products):
                    yield f"14: {grant.lease.factory_id} got a job of {grant.job.product_id}"
                yield from self._granted_late(exchange, grant, ended.get(exchange.secret))
            by = ended.get(exchange.secret)
            if by is None or not exchange.accepted or exchange.requested <= (by.served or 0):
                continue
            # Requests without an event and repeated requests do not reach other coordinators,
            # which learn about the end of a token from the feed.
            repeated = self._first[exchange.actor, exchange.key or ""] is not exchange
            strict = (exchange.verb in EVENT_VERBS and not repeated) or exchange.node == by.node
            if strict and exchange.verb in WORKER_VERBS:
                yield f"14: {exchange.node} accepts {exchange.verb} with a token ended at {by.node}"

    def _granted_late(
        self, exchange: Exchange, grant: Grant, end: Exchange | None
    ) -> Iterator[str]:
        state = self._histories[grant.job.id].at(grant.job.seq)
        place = (exchange.actor, exchange.key)
        if end is None or state is None or state.moment <= (end.served or 0):
            return
        # A repetition with the next token may have got the lease; the answer is the same.
        if not any(
            (e.actor, e.key) == place and e.secret != exchange.secret for e in self._exchanges
        ):
            yield f"14: {grant.lease.factory_id} got {grant.job.title} with an ended token"

    def _capacity(self) -> Iterator[str]:
        """Check promise 15: live leases fit into slots and seats, and a lock has one holder."""
        held_leases: dict[str, tuple[HeldLease, ...]] = {}
        states = sorted(
            (
                (s.event.position, history, s)
                for history in self._histories.values()
                for s in history.states
            ),
            key=lambda found: found[0],
        )
        for _, history, state in states:
            held_leases[history.job_id] = (*((state.live,) if state.live else ()), *state.ending)
            if state.event.type == "assigned":
                yield from self._over_capacity(history, held_leases)

    def _over_capacity(
        self, history: JobHistory, held_leases: dict[str, tuple[HeldLease, ...]]
    ) -> Iterator[str]:
        counted: Counter[str] = Counter()
        for job_id, leases in held_leases.items():
            other = self._histories[job_id]
            for held in leases:
                counted[f"slots of {held.factory}"] += 1
                if held.engine:
                    counted[f"{held.engine} on {held.factory}"] += 1
                    counted[f"{held.engine} in the fleet"] += 1
                if other.lock and held.step == "run":
                    counted[f"lock {other.lock} of {other.product}"] += 1
        for what, taken in counted.items():
            if taken > (limit := self._limit(what)):
                yield f"15: {history.title} is granted, which uses {taken} of {limit} {what}"

    def _limit(self, what: str) -> int:
        head, _, place = what.partition(" ")
        if head == "lock":
            return 1
        if place == "in the fleet":
            return self._simulation.fleet_seats.get(head, 1000)
        spec = self._specs[place.rpartition(" ")[2].partition(".")[0]]
        return spec.slots if head == "slots" else spec.engines.get(head, 0)

    def _followers(self) -> Iterator[str]:
        """Check promise 20: a follower sees each event once, in order, without a gap."""
        for follower in self._simulation.followers:
            history = self._histories.get(follower.job_id or "")
            yield from follower.findings(len(history.states) if history else len(self._entries))

    def _end(self) -> Iterator[str]:
        """Check promise 10: every job ended or waits for a known reason; and 6: a complete log."""
        yield from (f"10: {what}" for what in self._simulation.unsettled)
        for job in self._simulation.store._jobs.values():  # noqa: SLF001 - the checker reads internal state
            states = self._histories[job.id].states if job.id in self._histories else []
            if job.seq != len(states) or (states and states[-1].stage != job.stage):
                yield f"6: {job.title} is {job.stage} at {job.seq}, but has {len(states)} events"


def _grants(exchange: Exchange) -> list[Grant]:
    if exchange.verb not in GRANT_VERBS or not exchange.accepted:
        return []
    return list(exchange.response) if exchange.verb == "claim" else [exchange.response]


def _jobs(exchange: Exchange) -> list[Job]:
    """Return the jobs in a response."""
    response: Any = exchange.response if exchange.accepted else None
    if isinstance(response, Job):
        return [response]
    if isinstance(response, SubmissionResult):
        return list(response.jobs)
    if exchange.verb == "find":
        return list(response or ())
    return [grant.job for grant in _grants(exchange)]

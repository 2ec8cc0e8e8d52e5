"""The judge: holds what clients were told and what the store kept against the promises."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import msgspec

from gigafactory.coordinator.dispatch.grants import Grant
from gigafactory.coordinator.jobs.submissions import SubmissionResult
from gigafactory.domain.job.job import Job
from tests.simulation.composites import composite_faults
from tests.simulation.evictions import eviction_faults
from tests.simulation.factories import Make
from tests.simulation.history import Exchange
from tests.simulation.money import money_faults
from tests.simulation.tales import Held, Tale, faults_in, tell
from tests.simulation.world import World

GIVES_WORK = {"claim", "accept"}
OF_WORKERS = {"report", "release", "renew", "log"}
ANSWERED = {"report", "release"}
GAP_MIN = timedelta(seconds=21)
"""Shorter ones are hidden by what a lease lasts longer than it takes to renew it."""
CLOCKS_APART = timedelta(seconds=1)
TIME_APART_MAX = timedelta(seconds=10)
"""Generous: a slow store delays the commit of a decision."""
ENDS_A_TOKEN = {"rotate", "revoke", "deregister"}


def judge(world: World) -> list[str]:
    """All that was found wrong, worst news first; nothing when every promise was kept."""
    return list(Judge(world).findings())


class Judge:
    """One history before the promises; it knows no rule of the domain."""

    def __init__(self, world: World) -> None:
        """Read the history once."""
        self._world = world
        self._exchanges = world.history.exchanges
        self._entries = world.store._events  # noqa: SLF001 - the judge looks on from outside
        self._tales = tell(self._entries, world.history.commits)
        self._first: dict[tuple[str, str], Exchange] = {}
        """The first request with each key: later ones may be told what that one was."""
        for made in self._exchanges:
            self._first.setdefault((made.who, made.key or ""), made)
        self._makes: dict[str, Make] = {m.id.partition(".")[0]: m.make for m in world.machines}

    def findings(self) -> Iterator[str]:
        """Every promise in turn."""
        yield from self._world.history.broken
        until = self._told_until()
        for tale in self._tales.values():
            yield from faults_in(tale, until)
        yield from self._told()
        yield from self._workers()
        yield from self._renewals()
        yield from self._gaps(until)
        yield from self._stretched()
        yield from self._keys()
        yield from self._names()
        yield from self._answers()
        yield from self._order()
        yield from self._halts()
        yield from self._drains()
        yield from self._tokens()
        yield from self._capacity()
        yield from eviction_faults(self._tales, self._entries)
        yield from money_faults(self._world.store, self._entries)
        yield from composite_faults(self._world.store, self._tales, self._world.dags)
        yield from self._followers()
        yield from self._end()

    def _told_until(self) -> dict[tuple[str, int], datetime]:
        """Until when each lease was told to last."""
        until: dict[tuple[str, int], datetime] = {}
        for made in self._exchanges:
            for grant in _grants(made):
                place = (grant.job.id, grant.lease.epoch)
                until[place] = max(until.get(place, grant.lease.expires_at), grant.lease.expires_at)
            if made.verb == "renew" and made.accepted:
                place = (made.request["job"], made.request["epoch"])
                until[place] = max(until.get(place, made.answer), made.answer)
        return until

    def _told(self) -> Iterator[str]:
        """6: whatever was acknowledged is in the log, as it was told; 16: and where to go on."""
        for made in self._exchanges:
            for job in _jobs(made):
                tale = self._tales.get(job.id)
                scene = tale.at(job.seq) if tale else None
                if scene is None:
                    yield f"6: {made.verb} told of {job.title} event {job.seq}, which is not there"
                elif scene.stage != job.stage:
                    yield (
                        f"6: {made.verb} told that {job.title} is {job.stage} at event {job.seq},"
                        f" and the log says {scene.stage}"
                    )
                elif job.head != scene.checkpoint:
                    yield (
                        f"16: {made.verb} told that {job.title} goes on from {job.head},"
                        f" and {scene.checkpoint} was the last one accepted"
                    )

    def _workers(self) -> Iterator[str]:
        """3, 4: a worker's word counts only under the live lease that it names."""
        for made in self._exchanges:
            if "epoch" not in made.request or made.verb not in ANSWERED or not made.accepted:
                continue
            tale = self._tales[made.request["job"]]
            scene = tale.at(made.answer.seq)
            who, epoch = made.who.removeprefix("factory:"), made.request["epoch"]
            before = tale.before(scene) if scene else None
            holders = [h for s in (scene, before) if s for h in (s.live, *s.ending) if h]
            if not any((h.factory, h.epoch) == (who, epoch) for h in holders):
                yield f"4: {made.verb} of {who} at epoch {epoch} of {tale.title} is accepted"

    def _renewals(self) -> Iterator[str]:
        """4 for what leaves no event; 18: renewing never shortens."""
        last: dict[tuple[str, int], Exchange] = {}
        granted = {
            (grant.job.id, grant.lease.epoch): grant.lease.expires_at
            for made in self._exchanges
            for grant in _grants(made)
        }
        for made in sorted(self._exchanges, key=lambda m: m.asked):
            if made.verb not in {"renew", "log"} or not made.accepted or made.served is None:
                continue
            if made.key and self._first[made.who, made.key] is not made:
                continue
            tale = self._tales[made.request["job"]]
            who, epoch = made.who.removeprefix("factory:"), made.request["epoch"]
            if not tale.live_between(who, epoch, made.asked, made.served):
                yield f"4: {made.verb} of {who} at epoch {epoch} of {tale.title} is accepted"
            if made.verb == "log" or tale.preempted:
                continue
            if made.answer < granted.get((tale.job_id, epoch), made.answer):
                yield f"18: renewing {tale.title} shortened the lease that was granted"
            earlier = last.get((tale.job_id, epoch))
            if earlier and (earlier.served or 0) < made.asked and made.answer < earlier.answer:
                yield f"18: renewing {tale.title} shortened its lease"
            last[tale.job_id, epoch] = made

    def _gaps(self, until: dict[tuple[str, int], datetime]) -> Iterator[str]:
        """3.3: a lease that could not be renewed is extended by the length of the outage.

        A grant that was decided before the gap and is stored after it begins in the past.
        """
        for moment, begun, ended in self._world.history.gaps:
            gap = ended - begun
            for (job_id, epoch), told in until.items():
                tale = self._tales[job_id]
                running = begun <= told <= begun + self._world.lease_ttl
                running = running and tale.granted(epoch) < moment
                if gap < GAP_MIN or not running or tale.preempted:
                    continue
                for event in (scene.event for scene in tale.scenes):
                    mine = event.type == "lease_expired" and event.data["epoch"] == epoch
                    early = ended < event.at < told + gap - CLOCKS_APART
                    if mine and early and event.actor == "system:reaper":
                        yield f"3.3: {job_id} is taken away at {event.at:%X}, after a gap of {gap}"

    def _stretched(self) -> Iterator[str]:
        """15.2: the server's time goes on evenly, so no step of a wall clock stretches a lease.

        Only where no coordinator stands still between a decision and its commit.
        """
        weather = self._world.weather
        if weather.outages or weather.coordinator_crashes or weather.stalls or weather.hang_ups:
            return
        for event, at in self._world.history.times:
            apart = self._world.time_of(at) - event.at
            if abs(apart) > TIME_APART_MAX:
                yield f"15.2: the server's time is {apart} late at {event.type} of {event.job_id}"

    def _names(self) -> Iterator[str]:
        """3.5: a name has one unfinished job."""
        owners: dict[tuple[str, str], str] = {}
        scenes = [(tale, s) for tale in self._tales.values() for s in tale.commits()]
        # What one commit ends and begins happens at once: the names that it frees are free for it.
        for tale, scene in sorted(scenes, key=lambda found: (found[1].moment, found[1].open)):
            place = (tale.product, tale.name)
            if scene.open and owners.setdefault(place, tale.job_id) != tale.job_id:
                yield f"3.5: {tale.name} is {owners[place]} and {tale.job_id}"
            elif not scene.open and owners.get(place) == tale.job_id:
                del owners[place]

    def _keys(self) -> Iterator[str]:
        """7: one idempotency key, one job; one request, one job."""
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
                    yield f"7: key {place} has {owners[place]} and {job.id}"
                if job.idempotency_key:
                    owners[place] = job.id
        yield from (f"7: {tag} was submitted {n} times" for tag, n in tags.items() if n > 1)

    def _answers(self) -> Iterator[str]:
        """17: the same request id gets the same answer; that of a claim may still grow.

        The leases of one claim are granted in a commit each, and a retry may come in between.
        """
        first: dict[tuple[str, str, str], bytes] = {}
        granted: dict[tuple[str, str], set[str]] = defaultdict(set)
        for made in sorted(self._exchanges, key=lambda m: m.served or 0):
            if made.key is None or not made.accepted:
                continue
            if made.verb == "claim":
                runs = {grant.lease.run_id for grant in _grants(made)}
                if runs and not runs >= granted[made.who, made.key]:
                    yield f"17: {made.verb} with key {made.key} got other leases"
                granted[made.who, made.key] |= runs
                continue
            said = msgspec.json.encode(made.answer)
            if first.setdefault((made.who, made.verb, made.key), said) != said:
                yield f"17: {made.verb} with key {made.key} got two answers"

    def _order(self) -> Iterator[str]:
        """19: what was told of a job later is not older, but for answers that are repeated."""
        told: dict[str, list[tuple[int, int, Exchange, Job]]] = defaultdict(list)
        for made in self._exchanges:
            if made.served is not None:
                for job in _jobs(made):
                    told[job.id].append((made.asked, made.served, made, job))
        for answers in told.values():
            by_end = sorted(answers, key=lambda a: a[1])
            newest, place = (0, 0), 0
            for asked, _, made, job in sorted(answers, key=lambda a: a[0]):
                while place < len(by_end) and by_end[place][1] < asked:
                    newest = max(newest, (by_end[place][3].seq, by_end[place][3].rev))
                    place += 1
                again = made.key and self._first[made.who, made.key] is not made
                if (job.seq, job.rev) < newest and not again:
                    yield f"19: {made.verb} told of {job.title} {job.seq}, after {newest} was told"

    def _halts(self) -> Iterator[str]:
        """13: after a halt is acknowledged there is no grant and no offer."""
        for tale in self._tales.values():
            for scene in tale.scenes:
                if scene.event.type in {"assigned", "offered"} and self._halted(tale, scene.moment):
                    yield f"13: {tale.title} is {scene.event.type} after a halt was acknowledged"

    def _halted(self, tale: Tale, moment: int) -> bool:
        for target in ("*", tale.product):
            mine = [m for m in self._exchanges if m.request.get("target") == target]
            resumes = [m for m in mine if m.verb == "resume" and m.asked < moment]
            for halt in mine:
                # A doubled request is answered as it was before, whatever has happened since.
                if halt.verb != "halt" or not halt.accepted or halt.doubled:
                    continue
                # A resume that was under way together with the halt may have come after it.
                undone = any((m.served or moment) > halt.asked for m in resumes)
                if (halt.served or 0) < moment and not undone:
                    return True
        return False

    def _drains(self) -> Iterator[str]:
        """3.9: after a drain is acknowledged a factory is given nothing new."""
        for made in self._exchanges:
            if made.verb != "drain" or not made.accepted or made.doubled:
                continue
            who = made.request["factory"]
            over = [
                m.asked
                for m in self._exchanges
                if m.verb == "undrain"
                and m.request["factory"] == who
                and m.served
                and m.served > made.asked
            ]
            for tale in self._tales.values():
                for scene in tale.scenes:
                    taken = scene.event.type == "assigned" and scene.event.data["factoryId"] == who
                    if taken and (made.served or 0) < scene.moment < min(over, default=10**9):
                        yield f"3.9: {who} got {tale.title} after it was told to drain"

    def _tokens(self) -> Iterator[str]:
        """14: a token that was ended gets nothing; none gets what is out of its scope."""
        ended: dict[str, Exchange] = {}
        for made in self._exchanges:
            if made.verb in ENDS_A_TOKEN and made.accepted:
                ended.setdefault(made.request["ends"], made)
        for made in self._exchanges:
            for grant in _grants(made):
                make = self._makes[grant.lease.factory_id.partition(".")[0]]
                if not {"*", grant.job.product_id} & set(make.products):
                    yield f"14: {grant.lease.factory_id} got a job of {grant.job.product_id}"
                yield from self._granted_late(grant, ended.get(made.secret))
            by = ended.get(made.secret)
            if by is None or not made.accepted or made.asked <= (by.served or 0):
                continue
            # What leaves no event, or repeats an answer, asks no other coordinator: that one hears
            # of the end by the feed.
            again = self._first[made.who, made.key or ""] is not made
            strict = (made.verb in ANSWERED and not again) or made.node == by.node
            if strict and made.verb in OF_WORKERS:
                yield f"14: {made.verb} at {made.node} with a token that was ended at {by.node}"

    def _granted_late(self, grant: Grant, end: Exchange | None) -> Iterator[str]:
        scene = self._tales[grant.job.id].at(grant.job.seq)
        if end and scene and scene.moment > (end.served or 0):
            yield f"14: {grant.lease.factory_id} got {grant.job.title} with a token that was ended"

    def _capacity(self) -> Iterator[str]:
        """15: live leases fit into slots and seats, and a lock has one holder."""
        sitting: dict[str, tuple[Held, ...]] = {}
        scenes = sorted(
            ((s.event.position, tale, s) for tale in self._tales.values() for s in tale.scenes),
            key=lambda found: found[0],
        )
        for _, tale, scene in scenes:
            sitting[tale.job_id] = (*((scene.live,) if scene.live else ()), *scene.ending)
            if scene.event.type == "assigned":
                yield from self._crowded(tale, sitting)

    def _crowded(self, tale: Tale, sitting: dict[str, tuple[Held, ...]]) -> Iterator[str]:
        counted: Counter[str] = Counter()
        for job_id, leases in sitting.items():
            other = self._tales[job_id]
            for held in leases:
                counted[f"slots of {held.factory}"] += 1
                if held.engine:
                    counted[f"{held.engine} on {held.factory}"] += 1
                    counted[f"{held.engine} in the fleet"] += 1
                if other.lock and held.step == "run":
                    counted[f"lock {other.lock} of {other.product}"] += 1
        for what, taken in counted.items():
            if taken > (limit := self._limit(what)):
                yield f"15: {tale.title} is granted, and makes {taken} of {limit} {what}"

    def _limit(self, what: str) -> int:
        head, _, place = what.partition(" ")
        if head == "lock":
            return 1
        if place == "in the fleet":
            return self._world.fleet_seats.get(head, 1000)
        make = self._makes[place.rpartition(" ")[2].partition(".")[0]]
        return make.slots if head == "slots" else make.engines.get(head, 0)

    def _followers(self) -> Iterator[str]:
        """20: each event once, in order, without a gap."""
        for follower in self._world.followers:
            tale = self._tales.get(follower.job_id or "")
            yield from follower.faults(len(tale.scenes) if tale else len(self._entries))

    def _end(self) -> Iterator[str]:
        """10: everything is over, or waits for something that has a name; and the log is whole."""
        yield from (f"10: {what}" for what in self._world.unsettled)
        for job in self._world.store._jobs.values():  # noqa: SLF001 - seen from outside
            scenes = self._tales[job.id].scenes if job.id in self._tales else []
            if job.seq != len(scenes) or (scenes and scenes[-1].stage != job.stage):
                yield f"6: {job.title} is {job.stage} at {job.seq}, and has {len(scenes)} events"


def _grants(made: Exchange) -> list[Grant]:
    if made.verb not in GIVES_WORK or not made.accepted:
        return []
    return list(made.answer) if made.verb == "claim" else [made.answer]


def _jobs(made: Exchange) -> list[Job]:
    """The jobs that an answer tells of."""
    answer: Any = made.answer if made.accepted else None
    if isinstance(answer, Job):
        return [answer]
    if isinstance(answer, SubmissionResult):
        return list(answer.jobs)
    if made.verb == "find":
        return list(answer or ())
    return [grant.job for grant in _grants(made)]

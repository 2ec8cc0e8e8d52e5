"""Enrolment: how a machine becomes a factory, rotates its token and leaves."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from gigafactory.coordinator.access.tokens import Tokens, hash_secret
from gigafactory.coordinator.core.audit import audit_event, require_stored
from gigafactory.coordinator.core.committer import Committer, Plan
from gigafactory.coordinator.core.ports import Clock, Ids, Store, all_records
from gigafactory.coordinator.index.index import Index
from gigafactory.coordinator.index.past_capabilities import departure_data
from gigafactory.domain.errors import Conflict, NotFound, Unauthenticated
from gigafactory.domain.fleet.factory import Factory
from gigafactory.domain.fleet.factory_access import require_control
from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import RecordChange, Write
from gigafactory.domain.tenancy.access import OWN_PRODUCTS, Caller, Enrollment, TokenKind
from gigafactory.wire.fleet import Membership
from gigafactory.wire.limits import INVITATION_LASTS

Value = TypeVar("Value")


class Invitation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A one-time enrolment secret; shown only once."""

    id: str
    secret: str
    expires_at: datetime


class Enrolment:
    """Actions by which factories join and leave."""

    def __init__(
        self,
        store: Store,
        committer: Committer,
        clock: Clock,
        ids: Ids,
        index: Index,
        tokens: Tokens,
    ) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._ids = ids
        self._index = index
        self._tokens = tokens

    async def invite(
        self,
        caller: Caller,
        products: tuple[str, ...],
        *,
        capabilities: tuple[str, ...] | None = None,
        lasts: timedelta = INVITATION_LASTS,
    ) -> Invitation:
        """Create a one-time secret with which one machine can join.

        Raises Forbidden.
        """
        caller.require("enroll", products)
        now = self._clock.now()
        secret = f"gfe_{self._ids.secret()}"
        enrollment = Enrollment(
            id=self._ids.new(now),
            hash=hash_secret(secret),
            products=products,
            capabilities=capabilities,
            created_at=now,
            created_by=caller.actor,
            expires_at=now + lasts,
        )
        event = audit_event(
            event_types.ENROLLMENT_MADE,
            caller.actor,
            now,
            {"enrollmentId": enrollment.id},
            products,
        )
        verdict = await self._committer.commit(
            caller.actor, "invite", RecordChange(before=None, after=enrollment, events=(event,))
        )
        require_stored(verdict, "the invitation could not be stored; try again")
        return Invitation(id=enrollment.id, secret=secret, expires_at=enrollment.expires_at)

    async def invitations(self, caller: Caller) -> Sequence[Enrollment]:
        """Return the invitations within the caller's scope, without secrets, oldest first.

        Raises Forbidden.
        """
        caller.require("enroll", OWN_PRODUCTS)
        enrollments = await all_records(self._store, Enrollment)
        return sorted((e for e in enrollments if caller.covers_all(e.products)), key=lambda e: e.id)

    async def withdraw(self, caller: Caller, enrollment_id: str) -> None:
        """Withdraw an invitation.

        Raises Forbidden, NotFound.
        """
        enrollment = next(
            (e for e in await self.invitations(caller) if e.id == enrollment_id), None
        )
        if enrollment is None:
            raise NotFound("enrollment", enrollment_id)
        event = audit_event(
            event_types.ENROLLMENT_WITHDRAWN,
            caller.actor,
            self._clock.now(),
            {"enrollmentId": enrollment_id},
            enrollment.products,
        )
        verdict = await self._committer.commit(
            caller.actor, "withdraw", RecordChange(before=enrollment, after=None, events=(event,))
        )
        require_stored(verdict, "the invitation was just used; deregister the factory instead")

    async def enroll(
        self, secret: str, factory_id: str, *, os: str | None = None, labels: tuple[str, ...] = ()
    ) -> Membership:
        """Exchange a one-time secret for the factory's own token.

        Raises Unauthenticated for an invalid secret, Conflict if the id is taken.
        """
        now = self._clock.now()
        enrollment = await self._store.record(Enrollment, hash_secret(secret))
        if enrollment is None or enrollment.used_by is not None or enrollment.expires_at <= now:
            message = "this enrollment secret is unknown, used or expired; ask for a new one"
            raise Unauthenticated(message)
        if await self._store.record(Factory, factory_id) is not None:
            raise Conflict(
                f"the factory {factory_id!r} already exists; choose another id, or deregister it"
            )
        actor = f"factory:{factory_id}"
        issued = self._tokens.build(
            TokenKind.FACTORY,
            factory_id,
            by=actor,
            products=enrollment.products,
            capabilities=enrollment.capabilities,
        )
        factory = Factory(
            id=factory_id,
            token_id=issued.token.id,
            products=enrollment.products,
            capabilities_allowed=enrollment.capabilities,
            os=os,
            labels=labels,
            enrolled_at=now,
        )
        used = replace(enrollment, used_by=factory_id, rev=enrollment.rev + 1)
        event = audit_event(
            event_types.FACTORY_ENROLLED, actor, now, {"factoryId": factory_id}, factory.products
        )
        verdict = await self._committer.commit(
            actor,
            "enroll",
            RecordChange(before=enrollment, after=used),
            RecordChange(before=None, after=issued.token),
            RecordChange(before=None, after=factory, events=(event,)),
        )
        require_stored(
            verdict,
            "another request used the secret or the id at the same time; ask for a new secret",
        )
        await self._index.refresh(Factory, factory_id)
        return Membership(factory_id=factory_id, token=issued.secret)

    async def rotate(self, caller: Caller, factory_id: str) -> Membership:
        """Give a factory a new token and end the old one, in one step.

        Raises Forbidden unless the caller is the factory itself or an admin of all its products,
        NotFound.
        """

        async def decide() -> Plan[Membership]:
            factory = await self._require_factory(caller, factory_id)
            issued = self._tokens.build(
                TokenKind.FACTORY,
                factory_id,
                by=caller.actor,
                products=factory.products,
                capabilities=factory.capabilities_allowed,
            )
            after = replace(factory, token_id=issued.token.id, rev=factory.rev + 1)
            now = self._clock.now()
            event = audit_event(
                event_types.TOKEN_ROTATED,
                caller.actor,
                now,
                {"factoryId": factory_id},
                factory.products,
            )
            writes = (
                *await self._revoke_all(factory),
                RecordChange(before=None, after=issued.token),
                RecordChange(before=factory, after=after, events=(event,)),
            )
            return Plan(Membership(factory_id=factory_id, token=issued.secret), writes)

        return await self._execute(caller, "rotate", decide, Membership)

    async def revoke(self, caller: Caller, factory_id: str) -> None:
        """Revoke a factory's tokens: it gets no more jobs, and its leases expire.

        Raises Forbidden, NotFound.
        """

        async def decide() -> Plan[None]:
            factory = await self._require_factory(caller, factory_id)
            now = self._clock.now()
            event = audit_event(
                event_types.TOKEN_REVOKED,
                caller.actor,
                now,
                {"factoryId": factory_id},
                factory.products,
            )
            after = replace(factory, streaming=None, rev=factory.rev + 1)
            ended = await self._revoke_all(factory)
            return Plan(None, (*ended, RecordChange(before=factory, after=after, events=(event,))))

        await self._execute(caller, "revoke", decide, type(None))

    async def deregister(self, caller: Caller, factory_id: str) -> None:
        """Remove a factory and its tokens; its leases expire.

        Raises Forbidden, NotFound.
        """

        async def decide() -> Plan[None]:
            factory = await self._require_factory(caller, factory_id, verb="deregister")
            event = audit_event(
                event_types.FACTORY_DEREGISTERED,
                caller.actor,
                self._clock.now(),
                departure_data(factory),
                factory.products,
            )
            ended = await self._revoke_all(factory)
            return Plan(None, (*ended, RecordChange(before=factory, after=None, events=(event,))))

        await self._execute(caller, "deregister", decide, type(None))

    async def _execute(
        self,
        caller: Caller,
        operation: str,
        decide: Callable[[], Awaitable[Plan[Value]]],
        of: type[Value],
    ) -> Value:
        """Execute without recording the answer, which may contain a secret."""
        try:
            return await self._committer.execute(
                replace(caller, request_key=None), operation, decide, of
            )
        finally:
            self._tokens.clear_cache()

    async def _require_factory(
        self, caller: Caller, factory_id: str, *, verb: str = "enroll"
    ) -> Factory:
        factory = await self._store.record(Factory, factory_id)
        return require_control(caller, verb, factory_id, factory)

    async def _revoke_all(self, factory: Factory) -> list[Write]:
        now = self._clock.now()
        return [
            RecordChange(before=token, after=replace(token, revoked_at=now, rev=token.rev + 1))
            for token in await self._tokens.factory_tokens(factory)
        ]

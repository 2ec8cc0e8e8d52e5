"""Tokens: authenticate callers; issue, list and revoke people's tokens."""

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from gigafactory.coordinator.core.audit import audit_event, require_stored
from gigafactory.coordinator.core.committer import Committer
from gigafactory.coordinator.core.ports import Clock, Ids, Store, all_records
from gigafactory.coordinator.index.index import Index
from gigafactory.domain.errors import Forbidden, NotFound, Unauthenticated
from gigafactory.domain.fleet.factory import Factory
from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import FLEET, FeedEntry, Guard, RecordChange
from gigafactory.domain.tenancy.access import (
    OWN_PRODUCTS,
    AgentScope,
    Caller,
    Role,
    Token,
    TokenKind,
    sole_product,
)

KNOWN_MAX = 10_000
TOKEN_EVENTS = frozenset(
    {
        event_types.TOKEN_MADE,
        event_types.TOKEN_REVOKED,
        event_types.TOKEN_ROTATED,
        event_types.SIGNED_OUT,
        event_types.FACTORY_DEREGISTERED,
    }
)


def hash_secret(secret: str) -> str:
    """Return the hash that is stored of a secret; 256 random bits make a fast hash safe."""
    return hashlib.sha256(secret.encode()).hexdigest()


def revoke_token(token: Token, now: datetime) -> Token:
    """Return the token as revoked."""
    return replace(token, revoked_at=token.revoked_at or now, rev=token.rev + 1)


class IssuedToken(msgspec.Struct, frozen=True):
    """A new token with its secret, which is shown only once."""

    token: Token
    secret: str


class Tokens:
    """Authenticates callers, and manages tokens."""

    def __init__(
        self, store: Store, committer: Committer, clock: Clock, ids: Ids, index: Index
    ) -> None:
        """Look tokens up in this store; empty the cache when one changes."""
        self._store = store
        self._committer = committer
        self._clock = clock
        self._ids = ids
        self._cache: dict[str, Token] = {}
        index.subscribe(self._on_entry)

    def _on_entry(self, entry: FeedEntry) -> None:
        if entry.event.type in TOKEN_EVENTS:
            self.clear_cache()

    def clear_cache(self) -> None:
        """Forget all cached tokens, because one has changed."""
        # A new dictionary: a lookup that is under way stores its result in the old one.
        self._cache = {}

    async def caller(
        self, secret: str, *, product: str | None, request_key: str | None = None
    ) -> Caller:
        """Return the caller that presents this secret, with the product of the request.

        Raises Unauthenticated, Forbidden for a product outside of the token's scope.
        """
        token = await self._token(hash_secret(secret))
        if token is None or not token.is_valid(self._clock.now()):
            raise Unauthenticated(
                "the token is not known, was revoked or has expired; get a new one"
            )
        scope = await self._agent_scope(token)
        if product is not None and not (FLEET in token.products or product in token.products):
            allowed = ", ".join(token.products)
            raise Forbidden(f"this token does not cover product {product!r}; it covers {allowed}")
        only = sole_product(token.products)
        factory = token.for_ is TokenKind.FACTORY
        who = token.for_ if factory or scope else "user"
        return Caller(
            actor=f"{who}:{token.user}",
            role=None if factory or scope else token.role,
            factory_id=token.user if factory else None,
            products=token.products,
            product=product or (None if only == FLEET else only),
            token=token,
            request_key=request_key,
            agent_scope=scope,
        )

    async def _agent_scope(self, token: Token) -> AgentScope | None:
        """Return the scope of a job token; None for any other token.

        Raise Unauthenticated if its run has ended.
        """
        if token.for_ is not TokenKind.JOB:
            return None
        job = await self._store.job(token.user)
        if job is None or job.lease is None or job.lease.epoch != token.epoch:
            raise Unauthenticated(
                f"this token was good for a run of job {token.user}, which has ended"
            )
        return AgentScope(job.id, job.id if job.composite else job.parent_id)

    async def _token(self, digest: str) -> Token | None:
        # Lookup by hash: no byte-by-byte comparison, so no timing attack.
        cached = self._cache
        token = cached.get(digest)
        if token is None:
            token = await self._store.record(Token, digest)
            if token is not None:
                if len(cached) >= KNOWN_MAX:
                    cached.clear()
                cached[digest] = token
        return token

    def build(
        self,
        kind: TokenKind,
        user: str,
        *,
        by: str,
        role: Role = Role.VIEWER,
        products: tuple[str, ...] = ("*",),
        capabilities: tuple[str, ...] | None = None,
        lasts: timedelta | None = None,
        epoch: int | None = None,
    ) -> IssuedToken:
        """Return a new token that is not stored yet."""
        now = self._clock.now()
        secret = f"gf{kind[0]}_{self._ids.secret()}"
        token = Token(
            id=self._ids.new(now),
            hash=hash_secret(secret),
            for_=kind,
            user=user,
            role=role,
            products=products,
            capabilities=capabilities,
            created_at=now,
            created_by=by,
            expires_at=None if lasts is None else now + lasts,
            epoch=epoch,
        )
        return IssuedToken(token, secret)

    async def issue(
        self,
        caller: Caller,
        user: str,
        role: Role,
        products: tuple[str, ...],
        *,
        lasts: timedelta | None = None,
    ) -> IssuedToken:
        """Issue a token to a person, within the products that the caller may see.

        Raises Forbidden.
        """
        caller.require("tokens", products)
        made = self.build(
            TokenKind.OPERATOR, user, by=caller.actor, role=role, products=products, lasts=lasts
        )
        await self.save(None, made.token, event_types.TOKEN_MADE, caller.actor)
        return made

    async def all(self, caller: Caller) -> Sequence[Token]:
        """Return the tokens within the caller's scope, without their secrets, oldest first.

        Job tokens are left out. Raises Forbidden.
        """
        caller.require("tokens", OWN_PRODUCTS)
        tokens = await all_records(self._store, Token)
        long_lived = (
            token
            for token in tokens
            if token.for_ is not TokenKind.JOB and caller.covers_all(token.products)
        )
        return sorted(long_lived, key=lambda token: token.id)

    async def revoke(self, caller: Caller, token_id: str) -> Token:
        """Revoke a token and all sessions that were started with it.

        Raises Forbidden, NotFound also for a token with a wider scope than the caller's.
        """
        tokens = await self.all(caller)
        token = next((t for t in tokens if t.id == token_id), None)
        if token is None:
            raise NotFound("token", token_id, "list them with `aq tokens list`")
        if token.revoked_at is not None:
            return token
        now = self._clock.now()
        ended = revoke_token(token, now)
        below = [
            RecordChange(before=t, after=revoke_token(t, now))
            for t in tokens
            if t.parent == token.id
        ]
        await self.save(token, ended, event_types.TOKEN_REVOKED, caller.actor, *below)
        return ended

    async def factory_tokens(self, factory: Factory) -> Sequence[Token]:
        """Return the valid tokens of a factory."""
        now = self._clock.now()
        return [
            token
            for token in await all_records(self._store, Token)
            if token.for_ is TokenKind.FACTORY and token.user == factory.id and token.is_valid(now)
        ]

    async def is_valid(self, caller: Caller) -> bool:
        """Return whether the caller's token is still valid; for long-lived streams."""
        if caller.token is None:
            return True
        token = await self._token(caller.token.hash)
        if token is None or not token.is_valid(self._clock.now()):
            return False
        try:
            await self._agent_scope(token)
        except Unauthenticated:
            return False
        return True

    async def save(
        self,
        before: Token | None,
        after: Token,
        kind: str,
        actor: str,
        *more: RecordChange,
        guards: tuple[Guard, ...] = (),
    ) -> None:
        """Store a token with an audit event.

        Raises Conflict when it, or `more` of the same commit, was changed at the same moment.
        """
        data = {"tokenId": after.id, "user": after.user, "role": after.role}
        event = audit_event(kind, actor, self._clock.now(), data, after.products)
        verdict = await self._committer.commit(
            actor,
            kind,
            RecordChange(before=before, after=after, events=(event,), guards=guards),
            *more,
        )
        self.clear_cache()
        require_stored(
            verdict, "the token was changed by another request at the same time; read it again"
        )

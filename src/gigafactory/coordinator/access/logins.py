"""Browser sign-in: one-time codes and session tokens."""

from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from gigafactory.coordinator.access.tokens import IssuedToken, Tokens, hash_secret, revoke_token
from gigafactory.coordinator.core.audit import require_stored
from gigafactory.coordinator.core.committer import Committer
from gigafactory.coordinator.core.ports import Clock, Ids, Store
from gigafactory.domain.errors import Conflict, Forbidden, Unauthenticated
from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import RecordChange, RevisionGuard
from gigafactory.domain.tenancy.access import Caller, LoginCode, Token, TokenKind

CODE_LASTS = timedelta(minutes=10)
SESSION_LASTS = timedelta(days=14)
USED = "this address was used or has expired; `aq login` prints a new one"


class IssuedLoginCode(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A one-time sign-in code; shown only once."""

    code: str
    expires_at: datetime


class Logins:
    """Signs browsers in and out."""

    def __init__(
        self, store: Store, committer: Committer, clock: Clock, ids: Ids, tokens: Tokens
    ) -> None:
        """Keep codes in this store, and make the tokens of browsers there."""
        self._store = store
        self._committer = committer
        self._clock = clock
        self._ids = ids
        self._tokens = tokens

    async def issue_code(self, caller: Caller) -> IssuedLoginCode:
        """Issue a code that signs in one browser as the caller, within ten minutes.

        Raises Forbidden for a factory, and for a browser: it cannot hand itself on.
        """
        token = caller.token
        if token is None or token.for_ is not TokenKind.OPERATOR:
            raise Forbidden(f"{caller.actor} cannot sign in with a browser; a person's token can")
        secret = self._ids.secret()
        expires_at = self._clock.now() + CODE_LASTS
        made = LoginCode(hash=hash_secret(secret), token_key=token.key, expires_at=expires_at)
        verdict = await self._committer.commit(
            caller.actor, "login-code", RecordChange(before=None, after=made)
        )
        require_stored(verdict, "the code could not be stored; try again")
        return IssuedLoginCode(code=secret, expires_at=expires_at)

    async def sign_in_with_code(self, secret: str) -> IssuedToken:
        """Exchange a code for a session token, once.

        Raises Unauthenticated.
        """
        code = await self._store.record(LoginCode, hash_secret(secret))
        now = self._clock.now()
        token = await self._store.record(Token, code.token_key) if code else None
        if code is None or token is None or code.expires_at <= now or not token.is_valid(now):
            raise Unauthenticated(USED)
        return await self._start_session(token, RecordChange(before=code, after=None))

    async def sign_in_with_token(self, secret: str) -> IssuedToken:
        """Exchange a person's token for a session token.

        Raises Unauthenticated; Forbidden for a factory's.
        """
        token = (await self._tokens.caller(secret, product=None)).token
        if token is None or token.for_ is not TokenKind.OPERATOR:
            raise Forbidden("this is not the token of a person; `aq tokens create` makes one")
        return await self._start_session(token)

    async def _start_session(self, token: Token, *used: RecordChange) -> IssuedToken:
        """Create a session token, guarded by the person's token; it does not outlive that one."""
        now = self._clock.now()
        left = SESSION_LASTS if token.expires_at is None else token.expires_at - now
        made = self._tokens.build(
            TokenKind.LOGIN,
            token.user,
            by=f"user:{token.user}",
            role=token.role,
            products=token.products,
            lasts=min(left, SESSION_LASTS),
        )
        made = replace(made, token=replace(made.token, parent=token.id))
        unmoved = RevisionGuard(Token.kind, token.key, token.rev)
        try:
            await self._tokens.save(
                None,
                made.token,
                event_types.SIGNED_IN,
                f"user:{token.user}",
                *used,
                guards=(unmoved,),
            )
        except Conflict:
            raise Unauthenticated(USED) from None
        return made

    async def sign_out(self, caller: Caller) -> None:
        """Revoke a session token; signing out twice is no error."""
        token = caller.token
        if token is not None and token.for_ is TokenKind.LOGIN:
            ended = revoke_token(token, self._clock.now())
            await self._tokens.save(token, ended, event_types.SIGNED_OUT, caller.actor)

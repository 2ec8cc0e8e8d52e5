"""Authentication by bearer token, product header and idempotency key."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from gigafactory.api.http.limits import FailedAttempts, RateLimiter
from gigafactory.coordinator.access.tokens import Tokens
from gigafactory.coordinator.access.wrong_secrets import WrongSecrets
from gigafactory.domain.errors import (
    Fault,
    Invalid,
    Malformed,
    TooManyRequests,
    Unauthenticated,
)
from gigafactory.domain.manifest.names import slug
from gigafactory.domain.tenancy.access import Caller, TokenKind

_KEY = re.compile(rb"[\x21-\x7e]{1,200}")
_SECRET_BYTES_MAX = 200


class Authenticator:
    """Authenticates requests and counts failed attempts by address."""

    def __init__(
        self,
        tokens: Tokens,
        rates: RateLimiter,
        failed_attempts: FailedAttempts,
        wrong_secrets: WrongSecrets,
    ) -> None:
        self._tokens = tokens
        self._wrong_secrets = wrong_secrets
        self._rates = rates
        self._failed_attempts = failed_attempts

    async def caller(self, headers: dict[bytes, bytes], address: str) -> Caller:
        """Return the caller of a request by its headers.

        Raises Unauthenticated, Forbidden for a product out of scope, TooManyRequests, Malformed,
        Invalid.
        """
        secret = _secret(headers.get(b"authorization"))
        product = _product(headers.get(b"x-product-id"))
        key = _request_key(headers.get(b"idempotency-key"))
        caller = await self.authenticate(secret, product, key, address)
        if caller.token is not None and caller.token.for_ is TokenKind.LOGIN:
            # A stolen session of a browser must not open the API.
            self._failed(address)
            raise Unauthenticated("this is the session of a browser; programs need a token")
        return caller

    async def authenticate(
        self, secret: str, product: str | None, key: str | None, address: str
    ) -> Caller:
        """Return the caller with this secret; count a wrong one against the address.

        Raises Unauthenticated, Forbidden for a product out of scope, TooManyRequests.
        """
        try:
            caller = await self._tokens.caller(secret, product=product, request_key=key)
        except Unauthenticated:
            self._failed(address)
            raise
        assert caller.token is not None, "a caller has a token"
        self._rates.take(caller.token.id)
        return caller

    @contextmanager
    def counting_failures(self, address: str) -> Iterator[None]:
        """Count an attempt that fails in this block.

        Raises TooManyRequests instead of Unauthenticated for an address that has failed too often.
        """
        try:
            yield
        except Unauthenticated:
            self._failed(address)
            raise

    def _failed(self, address: str) -> None:
        try:
            self._failed_attempts.count(address)
        except TooManyRequests:
            self._wrong_secrets.count_token(address)
            raise


def _secret(authorization: bytes | None) -> str:
    scheme, _, secret = (authorization or b"").partition(b" ")
    if scheme.lower() != b"bearer" or not 0 < len(secret) <= _SECRET_BYTES_MAX:
        raise Unauthenticated("a token is needed: send the header `Authorization: Bearer <token>`")
    return secret.strip().decode("latin-1")


def _product(header: bytes | None) -> str | None:
    if not header:
        return None
    try:
        return slug(header.decode("latin-1"))
    except ValueError as expected:
        raise Invalid("the request", [Fault("x-product-id", f"expected {expected}")]) from None


def _request_key(header: bytes | None) -> str | None:
    if header is None:
        return None
    if not _KEY.fullmatch(header):
        raise Malformed("the Idempotency-Key must have 1 to 200 visible ASCII characters")
    return header.decode("ascii")

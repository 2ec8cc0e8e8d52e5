"""Temporary links that open one artifact without a token."""

from datetime import datetime, timedelta

import msgspec

from gigafactory.coordinator.access.tokens import hash_secret
from gigafactory.coordinator.core.audit import audit_event, require_stored
from gigafactory.coordinator.core.committer import Committer
from gigafactory.coordinator.core.ports import Clock, Ids, Store
from gigafactory.coordinator.files.artifacts import ArtifactService, no_artifact
from gigafactory.domain.errors import Unauthenticated
from gigafactory.domain.job import event_types
from gigafactory.domain.job.artifact import Artifact, ArtifactLink
from gigafactory.domain.job.change import RecordChange
from gigafactory.domain.job.lifecycle import format_time
from gigafactory.domain.tenancy.access import OWN_PRODUCTS, Caller, Token


class NewLink(msgspec.Struct, frozen=True):
    """A new link; its secret is only shown here."""

    artifact: Artifact
    secret: str
    expires_at: datetime


class ArtifactLinks:
    """Creates and opens links; only the hashes of their secrets are stored."""

    def __init__(
        self, store: Store, committer: Committer, clock: Clock, ids: Ids, artifacts: ArtifactService
    ) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._ids = ids
        self._artifacts = artifacts

    async def create(self, caller: Caller, wanted: str, lasts: timedelta) -> NewLink:
        """Create a link to an artifact that the caller may read; it ends with the caller's token.

        Raises Forbidden for workers, NotFound.
        """
        caller.require("read", OWN_PRODUCTS)
        artifact = await self._artifacts.get(caller, wanted)
        now = self._clock.now()
        secret = self._ids.secret()
        link = ArtifactLink(
            hash=hash_secret(secret),
            artifact_id=artifact.id,
            product_id=artifact.product_id,
            token_key=caller.token.key if caller.token else None,
            created_by=caller.actor,
            expires_at=now + lasts,
        )
        data = {
            "artifactId": artifact.id,
            "name": artifact.name,
            "expiresAt": format_time(link.expires_at),
        }
        event = audit_event(event_types.LINK_MADE, caller.actor, now, data, (artifact.product_id,))
        verdict = await self._committer.commit(
            caller.actor, "link", RecordChange(before=None, after=link, events=(event,))
        )
        require_stored(verdict, "the link could not be stored; try again")
        return NewLink(artifact, secret, link.expires_at)

    async def open(self, wanted: str, secret: str) -> Artifact:
        """Return the artifact that a link opens.

        Raises Unauthenticated, and NotFound if the artifact was deleted.
        """
        link = await self._store.record(ArtifactLink, hash_secret(secret))
        now = self._clock.now()
        if link is None or link.artifact_id != wanted or now >= link.expires_at:
            raise Unauthenticated("this link is invalid or has expired; ask for a new link")
        if link.token_key is not None:
            token = await self._store.record(Token, link.token_key)
            if token is None or not token.is_valid(now):
                raise Unauthenticated(
                    "this link is no longer valid: its creator lost access; ask for a new link"
                )
        artifact = await self._store.record(Artifact, wanted)
        if artifact is None:
            raise no_artifact(wanted)
        return artifact

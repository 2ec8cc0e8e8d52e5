"""Links that open one artifact for a while, for whoever has no token; they end by themselves."""

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
from gigafactory.domain.tenancy.access import Caller, Token


class NewLink(msgspec.Struct, frozen=True):
    """A new link, whose secret is shown this once."""

    artifact: Artifact
    secret: str
    expires_at: datetime


class ArtifactLinks:
    """The verbs on links."""

    def __init__(
        self, store: Store, committer: Committer, clock: Clock, ids: Ids, artifacts: ArtifactService
    ) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._ids = ids
        self._artifacts = artifacts

    async def create(self, caller: Caller, wanted: str, lasts: timedelta) -> NewLink:
        """A link to an artifact that the caller may read; it ends with the caller's token too.

        Raises Forbidden for workers, NotFound.
        """
        caller.require("read")
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
        event = audit_event(event_types.LINK_MADE, caller.actor, now, data, artifact.product_id)
        verdict = await self._committer.commit(
            caller.actor, "link", RecordChange(before=None, after=link, events=(event,))
        )
        require_stored(verdict, "the link could not be made; try again")
        return NewLink(artifact, secret, link.expires_at)

    async def open(self, wanted: str, secret: str) -> Artifact:
        """The artifact that a link opens.

        Raises Unauthenticated, and NotFound when the artifact was deleted.
        """
        link = await self._store.record(ArtifactLink, hash_secret(secret))
        now = self._clock.now()
        if link is None or link.artifact_id != wanted or now >= link.expires_at:
            raise Unauthenticated("this link has ended, or never was one; ask for a new one")
        if link.token_key is not None:
            token = await self._store.record(Token, link.token_key)
            if token is None or not token.is_valid(now):
                raise Unauthenticated("whoever made this link has lost the right to; ask anew")
        artifact = await self._store.record(Artifact, wanted)
        if artifact is None:
            raise no_artifact(wanted)
        return artifact

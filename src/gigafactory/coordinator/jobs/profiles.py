"""Profiles: the built-in catalogue, overlaid with versions saved by each product."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from gigafactory.coordinator.core.committer import Committer, Plan
from gigafactory.coordinator.core.ports import Clock, Store, all_records
from gigafactory.domain.errors import Forbidden, NotFound
from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import RecordChange
from gigafactory.domain.job.job import Event
from gigafactory.domain.manifest.names import profile_reference
from gigafactory.domain.manifest.profile import Profile, unknown_profile
from gigafactory.domain.tenancy.access import OWN_PRODUCTS, Caller
from gigafactory.domain.tenancy.product import ProfileVersion, profile_key


class ProfileCatalog:
    """Looks up and saves profiles."""

    def __init__(
        self, store: Store, committer: Committer, clock: Clock, shipped: Mapping[str, Profile]
    ) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._shipped = shipped

    async def resolve(self, product: str, reference: str | None) -> Profile | None:
        """Return the profile for a manifest's `name` or `name@version`; None without a reference.

        Raises Invalid with the list of known profiles.
        """
        if reference is None:
            return None
        name, version = profile_reference(reference)
        profile_version = await self.find(product, name, version)
        if profile_version is None:
            raise unknown_profile(reference, [p.name for p in await self.all(product)])
        return profile_version

    async def find(self, product: str, name: str, version: int | None = None) -> Profile | None:
        """Return a version of a profile, by default the newest; the product's own win."""
        versions = await self._versions(product, name)
        shipped = self._shipped.get(name)
        candidates = [*([shipped] if shipped else []), *versions]
        if version is not None:
            candidates = [profile for profile in candidates if profile.version == version]
        return candidates[-1] if candidates else None

    async def get(self, caller: Caller, name: str, version: int | None = None) -> Profile:
        """Return a version of a profile of the caller's product.

        Raises NotFound.
        """
        caller.require("read", OWN_PRODUCTS)
        profile_version = await self.find(caller.product or "", name, version)
        if profile_version is None:
            profile_names = ", ".join(p.name for p in await self.all(caller.product or ""))
            raise NotFound(
                "profile",
                name if version is None else f"{name}@{version}",
                f"known: {profile_names}",
            )
        return profile_version

    async def all(self, product: str) -> Sequence[Profile]:
        """Return the newest version of every profile available to a product, sorted by name."""
        newest = dict(self._shipped)
        records = await all_records(self._store, ProfileVersion, prefix=f"{product}/")
        newest |= {record.profile.name: record.profile for record in records}
        return [newest[name] for name in sorted(newest)]

    async def save(self, caller: Caller, profile: Profile) -> Profile:
        """Save a profile as a new version, unless it is unchanged; return the current version.

        Raises Forbidden.
        """
        caller.require("profiles", OWN_PRODUCTS)
        product = caller.product
        if product is None or not caller.can_see(product):
            raise Forbidden(
                f"{caller.actor} must choose one of its own products to save profiles in"
            )

        async def decide() -> Plan[Profile]:
            newest = await self.find(product, profile.name)
            version = newest.version + 1 if newest else 1
            if (
                newest is not None
                and replace(profile, version=newest.version, product_id=newest.product_id) == newest
            ):
                return Plan(newest)
            saved = replace(profile, version=version, product_id=product)
            record = ProfileVersion(
                product_id=product, profile=saved, saved_by=caller.actor, saved_at=self._clock.now()
            )
            event = Event(
                type=event_types.PROFILE_SAVED,
                at=self._clock.now(),
                actor=caller.actor,
                product_id=product,
                data={"profile": f"{saved.name}@{saved.version}"},
            )
            return Plan(saved, (RecordChange(before=None, after=record, events=(event,)),))

        return await self._committer.execute(
            caller, "save-profile", decide, Profile, request=profile
        )

    async def _versions(self, product: str, name: str) -> Sequence[Profile]:
        prefix = profile_key(product, name, 0).rpartition("@")[0] + "@"
        return [
            record.profile
            for record in await all_records(self._store, ProfileVersion, prefix=prefix)
        ]

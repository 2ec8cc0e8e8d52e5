"""All records of a kind, however many pages of the store they fill."""

from gigafactory.coordinator.ports import AnyRecord, Store


async def all_records(store: Store, of: type[AnyRecord], *, prefix: str = "") -> list[AnyRecord]:
    """Every record of a kind whose key begins so, in key order."""
    found: list[AnyRecord] = []
    while page := await store.records(of, prefix=prefix, after=found[-1].key if found else ""):
        found += page
    return found

"""Blobs in a container of Azure's storage."""

from typing import TYPE_CHECKING

from obstore.store import AzureStore

from gigafactory.blobs.objects import RETRY, ObjectBlobs, client_options

if TYPE_CHECKING:
    from obstore.store import AzureConfig


def azure_blobs(
    container: str, prefix: str, *, endpoint: str | None = None, config: "AzureConfig | None" = None
) -> ObjectBlobs:
    """The blobs below a prefix; what `config` does not say, the AZURE_… variables do."""
    store = AzureStore(
        container,
        prefix=prefix or None,
        config=config,
        client_options=client_options(endpoint),
        retry_config=RETRY,
    )
    return ObjectBlobs(store, f"az://{container}/{prefix}")

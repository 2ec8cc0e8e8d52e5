"""Blobs in a bucket of S3, or of what speaks as it does."""

from typing import TYPE_CHECKING

from obstore.store import S3Store

from gigafactory.blobs.objects import RETRY, ObjectBlobs, client_options

if TYPE_CHECKING:
    from obstore.store import S3Config


def s3_blobs(
    bucket: str, prefix: str, *, endpoint: str | None = None, config: "S3Config | None" = None
) -> ObjectBlobs:
    """The blobs below a prefix; what `config` does not say, the AWS_… variables do."""
    store = S3Store(
        bucket,
        prefix=prefix or None,
        config=config,
        client_options=client_options(endpoint),
        retry_config=RETRY,
    )
    return ObjectBlobs(store, f"s3://{bucket}/{prefix}")

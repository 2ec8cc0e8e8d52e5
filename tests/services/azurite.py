"""Azurite, an in-memory Azure Blob emulator on loopback: one for a whole test run."""

import base64
import hashlib
import hmac
import re
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING

from gigafactory.blobs.objects import ObjectBlobs, azure_blobs
from tests.services.node_packages import installed, running
from tests.services.shared import keep

if TYPE_CHECKING:
    from obstore.store import AzureConfig

VERSION = "3.35.0"
ACCOUNT = "devstoreaccount1"
# The well-known key of all Azure storage emulators; it is no secret.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

CONTAINER = "fleet"
API = "2021-12-02"


def environment(address: str) -> dict[str, str]:
    """Return the environment variables with the address and credentials for a client."""
    return {
        "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
        "AZURE_STORAGE_ACCOUNT_KEY": KEY,
        "AZURE_STORAGE_ENDPOINT": f"{address}/{ACCOUNT}",
    }


def blobs(address: str, prefix: str, *, container: str = CONTAINER) -> ObjectBlobs:
    """Open the blobs below a prefix."""
    config: AzureConfig = {
        "account_name": ACCOUNT,
        "account_key": KEY,
        "endpoint": f"{address}/{ACCOUNT}",
    }
    return azure_blobs(container, prefix, endpoint=address, config=config)


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Run the shared Azure Blob emulator of the test run and yield its address."""
    program = installed("azurite", VERSION) / "dist" / "src" / "blob" / "main.js"
    ready = re.compile(r"successfully listens on (http://127\.0\.0\.1:\d+)")
    arguments = (
        *(str(program), "--blobHost", "127.0.0.1", "--blobPort", "0", "--inMemoryPersistence"),
        *("--skipApiVersionCheck", "--disableTelemetry"),
    )
    with running(arguments, folder, ready) as address:
        _make_container(address)
        yield address


def _make_container(address: str) -> None:
    """Create the container with a signed request; obstore has no call for it."""
    date = formatdate(usegmt=True)
    path = f"/{ACCOUNT}/{CONTAINER}"
    signed = f"PUT{12 * chr(10)}x-ms-date:{date}\nx-ms-version:{API}\n"
    signed += f"/{ACCOUNT}{path}\nrestype:container"
    mac = hmac.digest(base64.b64decode(KEY), signed.encode(), hashlib.sha256)
    headers = {
        "x-ms-date": date,
        "x-ms-version": API,
        "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(mac).decode()}",
        "Content-Length": "0",
    }
    connection = HTTPConnection(address.removeprefix("http://"))
    connection.request("PUT", f"{path}?restype=container", headers=headers)
    answer = connection.getresponse()
    if answer.status != 201:
        raise RuntimeError(f"no container: {answer.status} {answer.read().decode()}")
    connection.close()


if __name__ == "__main__":
    keep("azurite", serve)

"""SeaweedFS, an S3 server on loopback that checks signatures: one for a whole test run."""

import asyncio
import json
import shutil
import socket
import subprocess
import sysconfig
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING

from gigafactory.blobs.objects import ObjectBlobs, s3_blobs
from tests.services.shared import keep

if TYPE_CHECKING:
    from obstore.store import S3Config

START_MAX_S = 60.0
ACCESS_KEY = "the-suite"
SECRET = "secret-of-the-suite"
BUCKET = "fleet"
ROLES = ("master", "volume", "filer", "s3")


def environment(address: str) -> dict[str, str]:
    """Return the environment variables with the address and credentials for a client."""
    return {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
    }


def blobs(address: str, prefix: str, *, secret: str = SECRET, bucket: str = BUCKET) -> ObjectBlobs:
    """Open the blobs below a prefix."""
    config: S3Config = {
        "endpoint": address,
        "access_key_id": ACCESS_KEY,
        "secret_access_key": secret,
        "region": "us-east-1",
    }
    return s3_blobs(bucket, prefix, endpoint=address, config=config)


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Run the shared S3 server of the test run with a bucket and yield its address."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "identities.json").write_text(json.dumps(_identities()))
    ports = free_ports(2 * len(ROLES))
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(
            _command(folder, ports),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            cwd=folder,
        )
    try:
        _wait(process, ports[ROLES.index("s3")], folder / "said")
        address = f"http://127.0.0.1:{ports[ROLES.index('s3')]}"
        # The first object creates the bucket.
        asyncio.run(blobs(address, "made").put_new("now", b""))
        yield address
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def free_ports(count: int) -> list[int]:
    """Return `count` different free loopback ports."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _identities() -> dict[str, object]:
    return {
        "identities": [
            {
                "name": "suite",
                "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET}],
                "actions": ["Admin"],
            }
        ]
    }


def _command(folder: Path, ports: Sequence[int]) -> list[str]:
    listening = [
        flag
        for role, port, grpc in zip(ROLES, ports, ports[len(ROLES) :], strict=False)
        for flag in (f"-{role}.port={port}", f"-{role}.port.grpc={grpc}")
    ]
    program = Path(sysconfig.get_path("scripts")) / "weed"
    return [
        *(str(program), "server", "-s3", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"),
        *("-master.telemetry=false", "-master.volumeSizeLimitMB=64", "-volume.max=0"),
        *("-s3.config=identities.json", "-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.iam=false"),
        *listening,
    ]


def _wait(process: subprocess.Popen[bytes], port: int, said: Path) -> None:
    until = time.monotonic() + START_MAX_S
    while not _answers(port):
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"SeaweedFS did not start:\n{said.read_text(errors='replace')}")
        time.sleep(0.05)


def _answers(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


if __name__ == "__main__":
    keep("seaweedfs", serve)

"""Fixtures for all suites: the real services, shared by all workers of a run."""

import gc
import signal
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import asyncpg
import pytest
from hypothesis import settings
from xdist.workermanage import WorkerController

from tests.services import postgres as postgres_service
from tests.services import shared

# A shell starts background jobs with SIGINT ignored, and all programs of the tests would inherit
# that. Restore it so that `make test &` tests the same as `make test`.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

RUN = pytest.StashKey[shared.Run]()
SERVICES = "services"

# A slow machine must not fail a test.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.stash[RUN] = shared.Run()


def pytest_collection_finish() -> None:
    # Exclude the modules and tests from garbage collection, since they live to the end.
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    node.workerinput[SERVICES] = str(node.config.stash[RUN].folder)


def pytest_unconfigure(config: pytest.Config) -> None:
    if RUN in config.stash:
        config.stash[RUN].end()


@pytest.fixture(scope="session")
def services(pytestconfig: pytest.Config) -> Path:
    """The folder of this run's services."""
    handed_down: dict[str, str] = getattr(pytestconfig, "workerinput", {})
    if SERVICES in handed_down:
        return Path(handed_down[SERVICES])
    return pytestconfig.stash[RUN].folder


@pytest.fixture(scope="session")
def postgres(services: Path) -> Callable[[str], str]:
    """A function that returns the DSN of a database on the run's PostgreSQL."""
    port = int(shared.address(services, "postgres"))
    return lambda database: postgres_service.dsn(port, database)


@pytest.fixture
async def database(postgres: Callable[[str], str]) -> AsyncIterator[str]:
    """The DSN of an empty PostgreSQL database for this test."""
    name = f"test_{uuid.uuid4().hex}"
    connection = await asyncpg.connect(postgres("postgres"))
    try:
        await connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        yield postgres(name)
        await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    finally:
        await connection.close()


@pytest.fixture(scope="session")
def s3(services: Path) -> str:
    """The address of the run's S3 server."""
    return shared.address(services, "seaweedfs")


@pytest.fixture(scope="session")
def azure(services: Path) -> str:
    """The address of the run's Azure Blob emulator."""
    return shared.address(services, "azurite")


@pytest.fixture
def private_postgres() -> Iterator[postgres_service.Server]:
    """A PostgreSQL server that this test may stop, kill and start."""
    with postgres_service.private() as server:
        yield server

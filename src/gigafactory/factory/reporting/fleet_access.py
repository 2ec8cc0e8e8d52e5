"""Access of a run's agent to its fleet: the API address and the token of the job."""

import shutil
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import msgspec

import gigafactory


class FleetAccess(msgspec.Struct, frozen=True):
    """Address of the fleet API, and a token limited to one job."""

    url: str
    token: str

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables by which `aq` and `aq mcp` find the fleet."""
        return {"AQ_FLEET_API": self.url, "AQ_FLEET_TOKEN": self.token}


def find_aq() -> str | None:
    """Return the `aq` program of this installation; None if its MCP extra is missing."""
    if find_spec("mcp") is None:
        return None
    return shutil.which("aq", path=str(Path(sys.executable).parent))


def readable_paths() -> tuple[Path, ...]:
    """Return the paths that `aq` needs to read in the sandbox."""
    return (Path(sys.prefix), Path(sys.base_prefix), Path(gigafactory.__file__).parent)

"""What the agent of a run is given to ask its fleet with: an address, and its job's own token."""

import shutil
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import msgspec

import gigafactory


class FleetAccess(msgspec.Struct, frozen=True):
    """Where the fleet is, and what opens as much of it as the job may have."""

    url: str
    token: str

    @property
    def environment(self) -> Mapping[str, str]:
        """By what `aq`, and with it `aq mcp`, finds the fleet; the job's id is there already."""
        return {"AQ_FLEET_API": self.url, "AQ_FLEET_TOKEN": self.token}


def find_aq() -> str | None:
    """The `aq` of this factory that can serve tools; None where it lacks the extra for that."""
    if find_spec("mcp") is None:
        return None
    return shutil.which("aq", path=str(Path(sys.executable).parent))


def readable_paths() -> tuple[Path, ...]:
    """What has to be readable for it to start."""
    return (Path(sys.prefix), Path(sys.base_prefix), Path(gigafactory.__file__).parent)

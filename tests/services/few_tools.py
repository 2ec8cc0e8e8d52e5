"""A PATH for factories in tests: all system programs except the tools that no test job uses.

A factory asks every known tool for its version when it starts. A separate test covers that;
in other tests it would only cost a second each, for compilers that no job uses.
"""

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

from gigafactory.factory.machine.tools import TOOLS

SYSTEM = "/usr/local/bin:/usr/bin:/bin"
USED = frozenset({"git", "make", "python"})


@functools.cache
def search_path() -> str:
    """Return the PATH; its folder is removed when this process exits."""
    unused = {
        name for tool in TOOLS if tool.name not in USED for name in tool.programs or [tool.name]
    }
    folder = Path(tempfile.mkdtemp(prefix="gigafactory-tools-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for place in SYSTEM.split(":"):
        for program in Path(place).iterdir():
            link = folder / program.name
            if program.name not in unused and not link.is_symlink():
                link.symlink_to(program)
    return str(folder)

"""A PATH for factories of tests: all of the system's programs, but for those that only take time.

A factory asks every tool that it knows for its version when it starts. That is tested on its own;
elsewhere it costs a second a test to hear of compilers that no job uses.
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
    """The PATH; its folder lasts as long as this process."""
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

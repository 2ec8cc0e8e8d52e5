"""What runs need of their system, said before any begins."""

import sys

from gigafactory.domain.errors import Refused


class NotHere(Refused):
    """This system has not what it takes."""

    code = "not_on_this_system"


def require_posix(platform: str = sys.platform) -> None:
    """Go on where processes have groups and sessions, by which all of a run is found and ended.

    Raises NotHere.
    """
    if platform == "win32":
        raise NotHere(
            "jobs are not run on Windows itself: it has no process groups, by which all that a job"
            " started is ended with it; run this in WSL (`wsl --install`), and submit and watch"
            " from anywhere"
        )

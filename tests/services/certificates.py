"""The CA certificates of this machine, for programs that ship their own."""

import os
import ssl

VARIABLE = "NODE_EXTRA_CA_CERTS"


def trusting() -> dict[str, str]:
    """Return this process's environment, in which Node also trusts the system's CAs.

    A proxy with a private CA may stand between this machine and the registry.
    """
    system = ssl.get_default_verify_paths().cafile
    return ({VARIABLE: system} if system else {}) | dict(os.environ)

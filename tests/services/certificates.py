"""Certificates that this machine trusts, for programs that would only trust their own."""

import os
import ssl

VARIABLE = "NODE_EXTRA_CA_CERTS"


def trusting() -> dict[str, str]:
    """Our environment, in which Node also trusts what the system trusts.

    There may be an authority of one's own between us and a registry.
    """
    system = ssl.get_default_verify_paths().cafile
    return ({VARIABLE: system} if system else {}) | dict(os.environ)

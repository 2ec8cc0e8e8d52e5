"""Whose certificates are good: those that the machine trusts, or the file `SSL_CERT_FILE` names."""

import ssl
from functools import cache


@cache
def trusted() -> ssl.SSLContext:
    """How connections to elsewhere are secured; read once, since it takes a moment."""
    context = ssl.create_default_context()
    paths = ssl.get_default_verify_paths()
    if not (paths.cafile or paths.capath):
        # A bare machine has no list of its own: the usual one is better than none.
        import certifi

        context.load_verify_locations(certifi.where())
    return context

"""The trusted certificates: those of the machine, or of the file in `SSL_CERT_FILE`."""

import ssl
from functools import cache


@cache
def tls_context() -> ssl.SSLContext:
    """Return the TLS settings for outgoing connections; loaded once, since that is slow."""
    context = ssl.create_default_context()
    paths = ssl.get_default_verify_paths()
    if not (paths.cafile or paths.capath):
        # A bare machine has no certificates of its own: the usual bundle is better than none.
        import certifi

        context.load_verify_locations(certifi.where())
    return context

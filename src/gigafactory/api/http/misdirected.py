"""Responses to requests for a host name that has no pages, or is not served at all."""

from gigafactory.api.http.errors import PROBLEM, TITLES
from gigafactory.api.http.response import HttpResponse, encode
from gigafactory.wire.problem import Problem

NO_PAGES = (
    "The web pages have an address of their own, so that no other server on this machine gets your"
    " session. `aq login` prints it; an admin can set one with `server.public-url`."
)
NOT_SERVED = (
    "this coordinator does not serve this host name; add it to its settings"
    " (server.public-url or server.hosts)"
)

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Gigafactory: the pages have another address</title>
<style>
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 38rem; margin: 4rem auto; padding: 0 1rem }
</style>
</head>
<body>
<h1>The web pages have another address</h1>
<p>On the machine of the coordinator, run <code>aq login</code> (in a clone:
<code>.venv/bin/aq login</code>). It prints an address that signs this browser in, as
<code>make up</code> and <code>aq up</code> do. Its host name stays the same, so you can bookmark
it.</p>
<p>There are no pages under the name that you opened: cookies know no ports, so another server on
that machine, also one that a job starts, could get your session.</p>
<p>An admin can choose the name of the pages with <code>server.public-url</code>, or add another
with <code>server.hosts</code>.</p>
</body>
</html>
"""
_CONTENT_SECURITY_POLICY = b"default-src 'none'; style-src 'unsafe-inline'"


def misdirected_response(request_id: str, detail: str, *, accept: bytes) -> HttpResponse:
    """Return a page for browsers, a problem document for programs.

    Neither names the host of the pages: other programs on this machine must not know it.
    """
    if b"text/html" in accept:
        return HttpResponse(
            421,
            _PAGE.encode(),
            media_type=b"text/html; charset=utf-8",
            headers=((b"content-security-policy", _CONTENT_SECURITY_POLICY),),
        )
    problem = Problem(
        type="urn:gigafactory:problem:misdirected",
        title=TITLES[421],
        status=421,
        detail=detail,
        code="misdirected",
        request_id=request_id,
    )
    return HttpResponse(421, encode(problem), media_type=PROBLEM.encode())

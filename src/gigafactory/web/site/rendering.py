"""Render templates to HTML responses, with filters for times and sums and with security headers."""

from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined

from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import Headers, HttpResponse
from gigafactory.domain.elapsed import format_elapsed
from gigafactory.domain.tenancy.access import ROLES_BY_VERB
from gigafactory.system.formatting import format_money, format_size
from gigafactory.web.site.session import WebSession
from gigafactory.web.site.static_files import static_url

HTML = b"text/html; charset=utf-8"
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
URL_CHARS = "/?#[]@!$&'()*+,;=:%"
"""Characters that have a meaning in a URL; others are percent-encoded."""
SECURITY_HEADERS: Headers = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
)


def format_timestamp(at: datetime) -> str:
    """Format a time as RFC 3339 in UTC, with milliseconds."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@lru_cache(maxsize=1)
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("gigafactory.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "span": format_elapsed,
        "timestamp": format_timestamp,
        "bytes": format_size,
        "about_usd": partial(format_money, rounded=True),
        "usd": format_money,
    }
    environment.globals |= {"static": static_url, "auditors": ROLES_BY_VERB["audit"]}
    return environment


def render(template: str, **values: Any) -> str:  # noqa: ANN401 - template variables
    """Render a template; all values are escaped."""
    return _templates().get_template(template).render(values)


def render_page(
    request: ApiRequest,
    session: WebSession | None,
    template: str,
    *,
    status: int = 200,
    headers: Headers = (),
    **values: Any,  # noqa: ANN401 - template variables
) -> HttpResponse:
    """Render a whole page; without a session for a browser that is not signed in."""
    caller = session.caller if session else None
    html = render(
        template,
        session=session,
        signed_in=session is not None,
        user=caller.actor.removeprefix("user:") if caller else None,
        role=caller.role if caller else None,
        chosen_product=caller.product if caller else None,
        path=request.scope["path"],
        **values,
    )
    return HttpResponse(
        status, html.encode(), media_type=HTML, headers=(*SECURITY_HEADERS, *headers)
    )


def see_other(url: str, headers: Headers = ()) -> HttpResponse:
    """Redirect to another page, so that a reload does not submit the form again."""
    location = quote(url, safe=URL_CHARS)
    return HttpResponse(303, headers=((b"location", location.encode()), *headers))

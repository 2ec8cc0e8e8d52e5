"""How pages are made: templates, how times and sums are told, and the headers that guard."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import Headers, HttpResponse
from gigafactory.domain.tenancy.access import ROLES_BY_VERB
from gigafactory.system.formatting import format_elapsed, format_money, format_size
from gigafactory.web.site.session import Visit
from gigafactory.web.site.static_files import address

HTML = b"text/html; charset=utf-8"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
GUARDED: Headers = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
)


def moment(at: datetime) -> str:
    """A time as machines read it; the page shows it in the visitor's own zone."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@lru_cache(maxsize=1)
def _templates() -> Environment:
    made = Environment(
        loader=PackageLoader("gigafactory.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "span": lambda value: format_elapsed(
            value.total_seconds() if isinstance(value, timedelta) else value
        ),
        "moment": moment,
        "bytes": format_size,
        "about_usd": partial(format_money, rounded=True),
        "usd": format_money,
    }
    made.globals |= {"static": address, "auditors": ROLES_BY_VERB["audit"]}
    return made


def rendered(name: str, **values: Any) -> str:  # noqa: ANN401 - whatever the template shows
    """A template with its values; all text in it is escaped."""
    return _templates().get_template(name).render(values)


def page(
    request: ApiRequest,
    visitor: Visit | None,
    name: str,
    *,
    status: int = 200,
    headers: Headers = (),
    **values: Any,  # noqa: ANN401 - whatever the template shows
) -> HttpResponse:
    """A whole page for a visitor; None is somebody who has not signed in."""
    caller = visitor.caller if visitor else None
    html = rendered(
        name,
        visitor=visitor,
        known=visitor is not None,
        user=caller.actor.removeprefix("user:") if caller else None,
        role=caller.role if caller else None,
        chosen=caller.product if caller else None,
        path=request.scope["path"],
        **values,
    )
    return HttpResponse(status, html.encode(), media_type=HTML, headers=(*GUARDED, *headers))


def see_other(place: str, headers: Headers = ()) -> HttpResponse:
    """Go on to another page: what a form did is not done again by a reload."""
    return HttpResponse(303, headers=((b"location", place.encode("latin-1")), *headers))


Render = Callable[[], str]

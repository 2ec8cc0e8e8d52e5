"""Which trackers there are: opened as the settings say, each with a token of its own."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

from gigafactory.config.settings import ProductTrackerSettings as Told
from gigafactory.config.settings import TrackerSettings as Settings
from gigafactory.coordinator.core.ports import Tracker, TrackerBinding
from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.job.change import FLEET

GITHUB = "github.com"
GITHUB_API = "https://api.github.com"

_SLUG = re.compile(r"/?(?P<slug>[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+?)(?:\.git)?/?")
_VISIBLE = re.compile(r"[\x21-\x7e]+")
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@asynccontextmanager
async def open_trackers(
    settings: Settings, environ: Mapping[str, str]
) -> AsyncIterator[Mapping[str, TrackerBinding]]:
    """The trackers by product while the block lasts.

    Raises Invalid for one whose token is not there, or that would get it unprotected.
    """
    async with AsyncExitStack() as stack:
        places = {}
        for product, told in settings.products.items():
            places[product] = await _opened(stack, product, told, settings.agent, environ)
        yield places


async def _opened(
    stack: AsyncExitStack, product: str, told: Told, agent: str, environ: Mapping[str, str]
) -> TrackerBinding:
    field = f"tracker.products.{product}"
    token = _variable(told.token_env, environ, field)
    secret = _variable(told.secret_env, environ, field)
    kind = told.kind or _kind(told.url)
    repo = told.repo
    tracker: Tracker
    if kind == "webhook" or told.url is None:
        from gigafactory.trackers.webhook_only import WebhookOnlyTracker

        if kind != "webhook" or secret is None:
            raise _wrong(field, "has no url: give it one, or a secret-env for webhooks alone")
        tracker = WebhookOnlyTracker()
    elif kind == "github":
        from gigafactory.trackers.github_issues import open_issues

        slug = _SLUG.fullmatch(urlsplit(told.url).path)
        if slug is None:
            raise _wrong(field, f"url is {told.url!r}; expected https://github.com/owner/name")
        repo = repo or told.url
        api = _protected(told.api or _api(told.url), field)
        tracker = await stack.enter_async_context(
            open_issues(api, token, slug["slug"], agent=agent)
        )
    else:
        from gigafactory.trackers.items import open_items

        whose = None if product == FLEET else product
        tracker = await stack.enter_async_context(
            open_items(_protected(told.url, field), token, product=whose, agent=agent)
        )
    return TrackerBinding(
        name=product,
        tracker=tracker,
        secret=secret.encode() if secret else None,
        default_repo=repo,
        sends_updates=kind != "webhook",
    )


def _kind(url: str | None) -> str:
    if url is None:
        return "webhook"
    return "github" if urlsplit(url).hostname == GITHUB else "items"


def _api(url: str) -> str:
    host = urlsplit(url).hostname
    return GITHUB_API if host == GITHUB else f"https://{host}/api/v3"


def _variable(name: str | None, environ: Mapping[str, str], field: str) -> str | None:
    if name is None:
        return None
    value = environ.get(name, "").strip()
    if not _VISIBLE.fullmatch(value):
        raise _wrong(field, f"the variable {name} must hold a secret; it is empty, or has spaces")
    return value


def _protected(url: str, field: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "https" and (parts.scheme != "http" or parts.hostname not in _LOOPBACK):
        raise _wrong(field, f"{url!r} does not protect a token on its way: use an https address")
    return url


def _wrong(field: str, message: str) -> Invalid:
    return Invalid("the settings", [Fault(field, message)])

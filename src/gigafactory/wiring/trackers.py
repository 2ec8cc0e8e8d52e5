"""Open the configured trackers."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

from gigafactory.config.settings import ProductTrackerSettings, TrackerSettings
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
    settings: TrackerSettings, environ: Mapping[str, str]
) -> AsyncIterator[Mapping[str, TrackerBinding]]:
    """Yield the trackers by product.

    Raise Invalid for a missing token, or one that would be sent without TLS.
    """
    async with AsyncExitStack() as stack:
        trackers = {}
        for product, configured in settings.products.items():
            trackers[product] = await _open_tracker(
                stack, product, configured, settings.agent, environ
            )
        yield trackers


async def _open_tracker(
    stack: AsyncExitStack,
    product: str,
    configured: ProductTrackerSettings,
    agent: str,
    environ: Mapping[str, str],
) -> TrackerBinding:
    field = f"tracker.products.{product}"
    token = _variable(configured.token_env, environ, field)
    secret = _variable(configured.secret_env, environ, field)
    kind = configured.kind or _kind(configured.url)
    repo = configured.repo
    tracker: Tracker
    if kind == "webhook" or configured.url is None:
        from gigafactory.trackers.webhook_only import WebhookOnlyTracker

        if kind != "webhook" or secret is None:
            raise _invalid(field, "has no url: set one, or a secret-env for webhooks only")
        tracker = WebhookOnlyTracker()
    elif kind == "github":
        from gigafactory.trackers.github_issues import open_issues

        slug = _SLUG.fullmatch(urlsplit(configured.url).path)
        if slug is None:
            raise _invalid(
                field, f"url is {configured.url!r}; expected https://github.com/owner/name"
            )
        repo = repo or configured.url
        api = _require_https(configured.api or _api(configured.url), field)
        tracker = await stack.enter_async_context(
            open_issues(api, token, slug["slug"], agent=agent)
        )
    else:
        from gigafactory.trackers.items import open_items

        product_id = None if product == FLEET else product
        tracker = await stack.enter_async_context(
            open_items(
                _require_https(configured.url, field), token, product=product_id, agent=agent
            )
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
        raise _invalid(
            field, f"the variable {name} must contain a secret; it is empty or has spaces"
        )
    return value


def _require_https(url: str, field: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "https" and (parts.scheme != "http" or parts.hostname not in _LOOPBACK):
        raise _invalid(field, f"{url!r} would send the token without TLS: use an https URL")
    return url


def _invalid(field: str, message: str) -> Invalid:
    return Invalid("the configuration", [Fault(field, message)])

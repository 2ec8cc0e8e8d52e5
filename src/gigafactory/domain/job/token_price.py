"""Token list prices by model, to estimate the cost of runs whose engine reports none."""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from gigafactory.domain.job.run import USAGE_MAX, Usage
from gigafactory.domain.manifest.units import parse_usd

PER_TOKENS = 1_000_000

# The release suffix of a model name.
_RELEASE = re.compile(r"[-@](?:20\d{6}|20\d\d-\d\d-\d\d|latest)$")

Dollars = Annotated[float, Meta(ge=0, le=1_000_000)]


class Price(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """Dollars per million tokens of one model; unset kinds cost as much as input."""

    input: Dollars
    output: Dollars
    cached: Dollars | None = None
    cache_write: Dollars | None = None


Prices = Mapping[str, Price]
"""Prices by model name or shell pattern."""


def price_of(prices: Prices, model: str) -> Price | None:
    """Return the price of a model, ignoring its vendor prefix and release; None if unknown."""
    name = _RELEASE.sub("", model.lower().rpartition("/")[2])
    patterns = [pattern for pattern in prices if fnmatchcase(name, pattern)]
    return prices[max(patterns, key=len)] if patterns else None


def estimate_cost(usage: Usage, prices: Prices) -> Usage:
    """Return the usage with an estimated cost if its engine reported none."""
    tokens = (usage.tokens_in, usage.tokens_cached, usage.tokens_cache_write, usage.tokens_out)
    if usage.cost_nano_usd is not None or usage.model is None or not any(tokens):
        return usage
    price = price_of(prices, usage.model)
    if price is None:
        return usage
    nanos = sum(count * rate for count, rate in zip(tokens, _rates(price), strict=True))
    cost = -(-nanos // PER_TOKENS)
    return replace(usage, cost_nano_usd=min(cost, USAGE_MAX), estimated=True)


def _rates(price: Price) -> tuple[int, int, int, int]:
    """Return nano-dollars per million tokens: input, cached, cache write, output."""
    cached = price.input if price.cached is None else price.cached
    written = price.input if price.cache_write is None else price.cache_write
    given = (price.input, cached, written, price.output)
    first, second, third, fourth = (parse_usd(f"{dollars:.9f}") for dollars in given)
    return first, second, third, fourth

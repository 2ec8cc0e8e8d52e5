"""The built-in list prices of models."""

import tomllib
from datetime import date
from functools import cache
from importlib.resources import files

import msgspec

from gigafactory.domain.job.token_price import Price, Prices


class PriceList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Token prices of models on one day."""

    taken: date
    prices: dict[str, Price]


@cache
def load_price_list() -> PriceList:
    """Return the built-in price list."""
    text = files("gigafactory.engines").joinpath("prices.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), PriceList)


def merge_prices(own: Prices) -> Prices:
    """Return the built-in prices, overridden by configured ones."""
    return {**load_price_list().prices, **own}

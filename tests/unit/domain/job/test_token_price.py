"""Estimated costs of runs whose engine reports none."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gigafactory.domain.job.run import USAGE_MAX, Usage
from gigafactory.domain.job.token_price import Price, estimate_cost, price_of
from gigafactory.engines.prices import load_price_list, merge_prices

PRICES = {
    "tiny": Price(input=0.075, output=0.3),
    "large": Price(input=3, cached=0.3, cache_write=3.75, output=15),
    "large-*": Price(input=4, output=20),
    "large-fast-*": Price(input=6, output=30),
}


@pytest.mark.parametrize(
    ("model", "found"),
    [
        ("large", "large"),
        ("Large", "large"),
        ("large-20250929", "large"),
        ("large-2025-09-29", "large"),
        ("large@20250929", "large"),
        ("large-latest", "large"),
        ("some-provider/their/large", "large"),
        ("large-slow", "large-*"),
        ("large-fast-2", "large-fast-*"),
        ("larger", None),
        ("x-large", None),
        ("", None),
    ],
)
def test_price_is_found_by_the_longest_matching_model_name(model: str, found: str | None) -> None:
    assert price_of(PRICES, model) == (PRICES[found] if found else None)


def test_cost_estimate_is_exact_to_the_nano_dollar() -> None:
    used = Usage(
        model="large", tokens_in=1500, tokens_cached=1000, tokens_cache_write=200, tokens_out=52
    )
    priced = estimate_cost(used, PRICES)
    # 1500 x 3000 + 1000 x 300 + 200 x 3750 + 52 x 15000
    assert priced == replace(used, cost_nano_usd=6_330_000, estimated=True)


def test_tokens_without_their_own_price_cost_as_much_as_input() -> None:
    used = Usage(model="tiny", tokens_cached=1, tokens_cache_write=2)
    assert estimate_cost(used, PRICES).cost_nano_usd == 3 * 75


def test_fractions_of_a_nano_dollar_are_rounded_up() -> None:
    odd = {"odd": Price(input=0.0375, output=0)}
    assert estimate_cost(Usage(model="odd", tokens_in=1), odd).cost_nano_usd == 38
    assert estimate_cost(Usage(model="odd", tokens_in=2), odd).cost_nano_usd == 75


@pytest.mark.parametrize(
    "used",
    [
        Usage(model="large", tokens_in=5, cost_nano_usd=7),
        Usage(model="unheard-of", tokens_in=5),
        Usage(tokens_in=5),
        Usage(model="large", turns=1),
    ],
)
def test_usage_with_a_cost_or_without_a_priced_model_stays_unchanged(used: Usage) -> None:
    assert estimate_cost(used, PRICES) is used


counts = st.integers(0, USAGE_MAX)


@given(counts, counts, counts, counts, st.sampled_from(sorted(PRICES)))
def test_cost_estimate_stays_within_usage_bounds(
    into: int, cached: int, written: int, out: int, model: str
) -> None:
    used = Usage(
        model=model,
        tokens_in=into,
        tokens_cached=cached,
        tokens_cache_write=written,
        tokens_out=out,
    )
    estimate_cost(used, PRICES).check()


@pytest.mark.parametrize(
    ("model", "dollars"),
    [
        ("claude-sonnet-4-5-20250929", (3, 15)),
        ("anthropic/claude-sonnet-4.5", (3, 15)),
        ("claude-opus-4-20250514", (15, 75)),
        ("claude-opus-4-1", (15, 75)),
        ("claude-opus-4.7", (5, 25)),
        ("openai/gpt-5.5", (5, 30)),
        ("gpt-5-2025-08-07", (1.25, 10)),
    ],
)
def test_shipped_price_list_knows_models_by_the_names_engines_use(
    model: str, dollars: tuple[float, float]
) -> None:
    price = price_of(load_price_list().prices, model)
    assert price is not None
    assert (price.input, price.output) == dollars


@pytest.mark.parametrize(
    "model", ["claude-opus-4-5[1m]", "gpt-5.5-pro", "gpt-7", "gemini-2.5-pro-tts", "scripted"]
)
def test_shipped_price_list_has_no_price_for_unlisted_models(model: str) -> None:
    assert price_of(load_price_list().prices, model) is None


def test_shipped_price_list_is_dated_and_consistent() -> None:
    assert load_price_list().taken >= date(2026, 11, 16)
    for pattern, price in load_price_list().prices.items():
        assert pattern == pattern.lower()
        assert price.cached is not None
        assert price.cached < price.input < price.output, pattern


def test_configured_prices_override_the_shipped_ones() -> None:
    own = {"gpt-5": Price(input=1, output=2), "my-*": Price(input=0, output=0)}
    prices = merge_prices(own)
    assert price_of(prices, "gpt-5") == own["gpt-5"]
    assert price_of(prices, "my-model") == own["my-*"]
    assert price_of(prices, "gpt-5-mini") == load_price_list().prices["gpt-5-mini"]

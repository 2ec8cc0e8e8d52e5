"""Usage of a run on the wire."""

import msgspec
import pytest

from gigafactory.domain.errors import Invalid
from gigafactory.domain.job.run import Usage
from gigafactory.wire.runs import UsageDoc, UsageView

USAGE = Usage(
    engine="claude",
    model="large",
    tokens_in=1,
    tokens_cached=2,
    tokens_cache_write=3,
    tokens_out=4,
    tokens_reasoning=5,
    cost_nano_usd=250_000_001,
    estimated=True,
    turns=6,
    tool_calls=7,
    tools={"bash": 7},
)


@pytest.mark.parametrize("usage", [USAGE, Usage()])
def test_a_usage_is_the_same_after_it_was_reported(usage: Usage) -> None:
    sent = msgspec.json.encode(UsageDoc.from_domain(usage))
    assert msgspec.json.decode(sent, type=UsageDoc).to_domain() == usage


def test_a_usage_is_shown_as_it_was_reported() -> None:
    shown = msgspec.json.encode(UsageView.from_domain(USAGE))
    assert shown == msgspec.json.encode(UsageDoc.from_domain(USAGE))
    assert msgspec.json.decode(shown)["costUsd"] == "0.250000001"


def test_an_invalid_cost_is_refused_by_name() -> None:
    with pytest.raises(Invalid, match=r"usage\.costUsd"):
        UsageDoc(cost_usd="a lot").to_domain()

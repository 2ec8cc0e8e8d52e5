"""When the usage of a running job is worth a report."""

import pytest

from gigafactory.domain.job.run import Usage
from gigafactory.factory.run.live_usage import is_worth_reporting


@pytest.mark.parametrize(
    ("before", "now", "worth"),
    [
        (Usage(), Usage(), False),
        (Usage(), Usage(turns=1), False),
        (Usage(), Usage(tokens_in=1), True),
        (Usage(), Usage(cost_nano_usd=1), True),
        (Usage(tokens_in=1000), Usage(tokens_in=1050), False),
        (Usage(tokens_in=1000), Usage(tokens_in=1000, tokens_out=51), True),
        (Usage(tokens_in=1000), Usage(tokens_in=1000, cost_nano_usd=1), True),
        (Usage(cost_nano_usd=1000), Usage(cost_nano_usd=1051), True),
        (Usage(tokens_in=1000), Usage(tokens_in=900), False),
    ],
)
def test_small_usage_increase_is_not_worth_a_report(
    before: Usage, now: Usage, *, worth: bool
) -> None:
    assert is_worth_reporting(before, now) is worth


def test_long_run_makes_few_usage_reports() -> None:
    result, reports = Usage(), 0
    for thousands in range(1, 100_001):
        usage = Usage(tokens_in=thousands * 1000)
        if is_worth_reporting(result, usage):
            result, reports = usage, reports + 1
    assert reports < 300

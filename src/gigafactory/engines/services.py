"""How model services word their refusals, for engines that pass on little more than the words."""

from gigafactory.engines.engine import Trouble
from gigafactory.engines.trouble import API_SIGNS, of_status, of_words, signs

# These words say more than a status: one and the same stands for an empty account, an allowance
# that is used up and a busy minute.
_CERTAIN = signs(
    (r"insufficient_quota|exceeded your current quota|credit balance|billing", Trouble.BILLING),
    (r"usage[ _]limit|limit has been reached|hit your (?:\w+ )?limit", Trouble.ALLOWANCE),
    (r"context ?(?:length|window)|prompt is too long|too many tokens", Trouble.CONTEXT),
)
_LIKELY = signs(
    (r"rate[ _]?limit|too many requests", Trouble.RATE_LIMIT),
    (r"api[ _]?key|authenticat|unauthorized|permission ?denied|no credentials", Trouble.AUTH),
    (r"overloaded|at capacity|service ?unavailable|high demand", Trouble.OVERLOADED),
    (r"server had an error|internal ?server ?error|bad ?gateway", Trouble.SERVER),
    (r"time(?:d )?out|api ?connection", Trouble.NETWORK),
)


def refusal(message: str, status: int = 0) -> Trouble | None:
    """The kind of a refusal, by its words and its HTTP status if it has one; None: unheard of."""
    return of_words(message, _CERTAIN) or of_status(status) or of_words(message, API_SIGNS, _LIKELY)

"""Scenarios of the scripted model: its turns, and refusals in the format of each service."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

HOUR = "+3600"
"""A value that begins with a plus becomes a Unix time that many seconds from now."""

CLOSING = "The scripted scenario has no further turns."


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """The token usage of a turn; `input` counts uncached tokens only."""

    input: int = 1200
    output: int = 40
    cached: int = 0


@dataclass(frozen=True)
class Shell:
    """A step that runs a command with the agent's shell tool."""

    command: str


@dataclass(frozen=True)
class Write:
    """A step that writes a file in the working directory, with a write tool or else the shell."""

    name: str
    content: str


@dataclass(frozen=True)
class Use:
    """A step that calls a tool of an MCP server, or waits for the server if it is not ready."""

    server: str
    tool: str
    arguments: Mapping[str, object]


@dataclass(frozen=True)
class Words:
    """A refusal in the format of one service family; `kind` is its error type or status."""

    status: int
    kind: str
    message: str
    code: str | None = None
    more: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A refused call; the turn works after `times` refusals, or never if None."""

    anthropic: Words
    openai: Words
    gemini: Words
    headers: Mapping[str, str] = field(default_factory=dict)
    times: int | None = None


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One turn of the model: text and at most one tool call, or a failure."""

    text: str = ""
    step: Shell | Write | Use | None = None
    tokens: Tokens = Tokens()
    refusal: Refusal | None = None
    hangs: bool = False
    """Whether the request is accepted and never answered."""


@dataclass(frozen=True)
class Scenario:
    """The turns of a conversation; `toolless` is for an agent that offers the model no tools."""

    turns: tuple[Turn, ...]
    toolless: bool = False

    def due(self, turn: int) -> Turn:
        """Return the turn with this index; after the last one, a closing text."""
        return self.turns[turn] if turn < len(self.turns) else Turn(text=CLOSING)

    @property
    def texts(self) -> frozenset[str]:
        """The texts of this scenario; other model turns in a conversation come from the agent."""
        return frozenset({turn.text.strip() for turn in self.turns if turn.text} | {CLOSING})


AUTH = Refusal(
    anthropic=Words(401, "authentication_error", "invalid x-api-key"),
    openai=Words(
        401, "invalid_request_error", "Incorrect API key provided.", code="invalid_api_key"
    ),
    gemini=Words(401, "UNAUTHENTICATED", "API key not valid. Please pass a valid API key."),
)
RATE_LIMIT = Refusal(
    anthropic=Words(
        429, "rate_limit_error", "This request would exceed your organization's rate limit."
    ),
    openai=Words(
        429, "tokens", "Rate limit reached. Please try again in 1s.", code="rate_limit_exceeded"
    ),
    gemini=Words(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."),
    headers={"retry-after": "1"},
)
USAGE_LIMIT = Refusal(
    anthropic=Words(
        429, "rate_limit_error", "This request would exceed your account's rate limit."
    ),
    openai=Words(
        429,
        "usage_limit_reached",
        "The usage limit has been reached",
        more={"plan_type": "plus", "resets_at": HOUR},
    ),
    gemini=Words(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota."),
    headers={
        "retry-after": "3600",
        "anthropic-ratelimit-unified-status": "rejected",
        "anthropic-ratelimit-unified-reset": HOUR,
        "anthropic-ratelimit-unified-representative-claim": "five_hour",
        "anthropic-ratelimit-unified-5h-status": "rejected",
        "anthropic-ratelimit-unified-5h-reset": HOUR,
        "anthropic-ratelimit-unified-5h-utilization": "1.0",
        "anthropic-ratelimit-unified-overage-status": "rejected",
        "x-codex-primary-used-percent": "100",
        "x-codex-primary-window-minutes": "300",
        "x-codex-primary-reset-at": HOUR,
    },
)
OVERLOADED = Refusal(
    anthropic=Words(529, "overloaded_error", "Overloaded"),
    openai=Words(
        503,
        "server_error",
        "Our servers are currently overloaded. Please try again later.",
        code="server_is_overloaded",
    ),
    gemini=Words(503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
)

HELLO = "Hello from the scripted model.\n"
SECOND = Tokens(input=300, output=12, cached=1000)
BIG_TEXT = "All of it was printed. " * 50_000

SCENARIOS: Mapping[str, Scenario] = {
    "create_file": Scenario(
        (
            Turn(text="I will create the file.", step=Write("hello.txt", HELLO)),
            Turn(text="Done: hello.txt is created.", tokens=SECOND),
        )
    ),
    "create_file_by_shell": Scenario(
        (
            Turn(text="I will create the file.", step=Shell(f"echo '{HELLO.strip()}' > hello.txt")),
            Turn(text="Done: hello.txt is created.", tokens=SECOND),
        )
    ),
    "whole_file": Scenario(
        (
            Turn(
                text=f"I will create the file.\n\nhello.txt\n```\n{HELLO}```\n",
                tokens=Tokens(input=900, output=30),
            ),
        ),
        toolless=True,
    ),
    "slow_shell": Scenario(
        (
            Turn(step=Shell("echo one > step1.txt")),
            Turn(step=Shell("echo started > step2.txt; sleep 60; echo finished >> step2.txt")),
            Turn(step=Shell("echo three > step3.txt")),
            Turn(text="All three steps are done."),
        )
    ),
    "big_output": Scenario(
        (
            Turn(step=Shell("yes 'a line that is printed very often' | head -c 20000000")),
            Turn(text=BIG_TEXT),
        )
    ),
    "auth": Scenario((Turn(refusal=AUTH),)),
    "rate_limit": Scenario((Turn(refusal=RATE_LIMIT),)),
    "usage_limit": Scenario((Turn(refusal=USAGE_LIMIT),)),
    "overloaded": Scenario((Turn(refusal=OVERLOADED),)),
    "flaky": Scenario(
        (
            Turn(
                refusal=replace(OVERLOADED, times=2),
                step=Shell("echo 'Hello after two failures.' > hello.txt"),
            ),
            Turn(refusal=replace(RATE_LIMIT, times=1), text="Done after a rate limit."),
        )
    ),
    "hang": Scenario((Turn(hangs=True),)),
}

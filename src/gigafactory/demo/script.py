"""The script of the demo: a dozen jobs for a shell that acts as a coding agent."""

import random
from typing import NamedTuple

PRODUCT = "shop"
STUDIO = "studio"
"""The product that runs out of budget."""
CEILING = "1.00"
SURVIVOR = "survivor"
VICTIM = "linux-2"
"""The factory that is killed while it runs the job `survivor`."""


class DemoMachine(NamedTuple):
    """A factory: its label, slots, and a tool that only it has."""

    label: str
    slots: int
    tool: str
    """Name of the tool; a script acts as it."""
    says: str
    """Output of the tool."""


FACTORIES = {
    "mac-1": DemoMachine("design", 1, "swift", "Swift version 6.1"),
    "linux-1": DemoMachine("video", 2, "nvidia-smi", "GPU 0: a stand-in"),
    VICTIM: DemoMachine("build", 2, "terraform", "Terraform v1.9.0"),
}
"""Factories by name."""

COLOURS = ("\\033[36mreading\\033[0m", "\\033[33mediting\\033[0m", "\\033[32mtesting\\033[0m")
TERMS = (
    "You get what you have ordered.",
    "You can send it back within 30 days.",
    "We keep nothing about you that we do not need.",
)
PARTS = ("cart", "search", "login", "prices", "footer", "export")


class DemoJob(NamedTuple):
    """A job file and its product."""

    product: str
    text: str


def demo_jobs(seed: int, repo: str) -> list[DemoJob]:
    """Return the jobs of the demo; the same seed gives the same jobs."""
    chance = random.Random(seed)  # noqa: S311 - not a secret
    parts = chance.sample(PARTS, k=4)
    simple = [_simple(part, repo, chance) for part in parts]
    return [
        *simple,
        DemoJob(PRODUCT, _roadmap(repo, chance)),
        DemoJob(PRODUCT, _flaky(repo)),
        DemoJob(PRODUCT, _reviewed(repo, chance)),
        DemoJob(PRODUCT, _lasting(repo)),
        DemoJob(PRODUCT, "---\nname: logo\ncapabilities: [has:figma]\n---\n# Draw the new logo\n"),
        # The budget may end during the second film; then the third waits for budget.
        *(DemoJob(STUDIO, _costly(number, repo)) for number in (1, 2, 3)),
    ]


def _head(**settings: str) -> str:
    lines = "".join(f"{name.replace('_', '-')}: {value}\n" for name, value in settings.items())
    return f"---\nengine: command\n{lines}---\n"


def _work(file: str, chance: random.Random, *, usd: float = 0.02) -> str:
    steps = "".join(
        f'printf "{colour} {file}\\n"; sleep {chance.uniform(0.4, 1.6):.1f}\n' for colour in COLOURS
    )
    spent = (
        f'echo \'{{"usage": {{"tokensIn": {chance.randint(2000, 9000)}, "costUsd": {usd}}}}}\'\n'
    )
    return f"{steps}{spent}echo {file} >> {file}.txt\n"


def _simple(part: str, repo: str, chance: random.Random) -> DemoJob:
    title = f"# Make the {part} quicker\n"
    head = _head(name=part, repo=repo, verify=f"test -s {part}.txt", ship_policy="auto")
    return DemoJob(PRODUCT, head + title + _work(part, chance))


def _roadmap(repo: str, chance: random.Random) -> str:
    names = {
        "model": "Model the order",
        "page": "Build the page",
        "mail": "Send the receipt",
        "guide": "Write the guide",
    }
    after = {"page": "[model]", "mail": "[model]", "guide": "[page, mail]"}
    children = "".join(
        f"  - name: {name}\n    engine: command\n    repo: {repo}\n    ship-policy: auto\n"
        f"    verify: test -s {name}.txt\n    phase: {2 if name == 'guide' else 1}\n"
        f"    deps: {after.get(name, '[]')}\n    body: |\n"
        + "".join(f"      {line}\n" for line in (f"# {title}", *_work(name, chance).splitlines()))
        for name, title in names.items()
    )
    return f"---\nname: checkout\nkind: composite\nchildren:\n{children}---\n# A new checkout\n"


def _flaky(repo: str) -> str:
    head = _head(name="flaky", repo=repo, verify="test -s flaky.txt", retry="{max: 2, backoff: 2s}")
    body = (
        "# Try until it works\necho trying\n"
        'case "$AQ_RUN_ID" in *.1) echo "the network is away" >&2; exit 1;; esac\n'
        "echo fine > flaky.txt\n"
    )
    return head + body


def _reviewed(repo: str, chance: random.Random) -> str:
    head = _head(name="terms", repo=repo, verify="test -s terms.txt", review_policy="manual")
    terms = "".join(f"echo '{line}' >> terms.txt\n" for line in TERMS)
    return f"{head}# Rewrite the terms of sale\n{terms}sed -i s/shop/store/ README.md\n" + _work(
        "terms", chance
    )


def _lasting(repo: str) -> str:
    head = _head(
        name=SURVIVOR,
        repo=repo,
        verify="test -s long.txt",
        capabilities=f"['factory:{VICTIM}']",
        ship_policy="auto",
    )
    steps = "for n in $(seq 1 12); do echo step $n; echo $n >> long.txt; sleep 1; done\n"
    return f"{head}# Move the whole catalogue\n{steps}"


def _costly(number: int, repo: str) -> str:
    name = f"film-{number}"
    head = _head(name=name, repo=repo, verify=f"test -s {name}.txt", capabilities="[gpu]")
    usage = '{"usage": {"tokensIn": 900000, "costUsd": 0.7}}'
    return f"{head}# Cut film {number}\necho '{usage}'\nsleep 2\necho x > {name}.txt\n"

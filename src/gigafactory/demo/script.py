"""What the demo plays: a dozen jobs for a shell that stands in for a coding agent."""

import random
from typing import NamedTuple

PRODUCT = "shop"
STUDIO = "studio"
"""The product that comes to the end of its budget."""
CEILING = "1.00"
SURVIVOR = "survivor"
VICTIM = "linux-2"
"""The factory that is killed while it works on the survivor."""


class Machine(NamedTuple):
    """A factory: the word by which people tell it apart, and a tool that it alone has."""

    label: str
    slots: int
    tool: str
    """The name of a program that a script stands in for, as the engine's shell does."""
    says: str
    """What it says when it is asked who it is."""


FACTORIES = {
    "mac-1": Machine("design", 1, "swift", "Swift version 6.1"),
    "linux-1": Machine("video", 2, "nvidia-smi", "GPU 0: a stand-in"),
    VICTIM: Machine("build", 2, "terraform", "Terraform v1.9.0"),
}
"""By their names."""

COLOURS = ("\\033[36mreading\\033[0m", "\\033[33mediting\\033[0m", "\\033[32mtesting\\033[0m")
TERMS = (
    "You get what you have ordered.",
    "You can send it back within 30 days.",
    "We keep nothing about you that we do not need.",
)
PARTS = ("cart", "search", "login", "prices", "footer", "export")


class Play(NamedTuple):
    """A job file, and whose it is."""

    product: str
    text: str


def plays(seed: int, repo: str) -> list[Play]:
    """The jobs of one showing; the same seed gives the same ones."""
    chance = random.Random(seed)  # noqa: S311 - a play, and no secret
    parts = chance.sample(PARTS, k=4)
    simple = [_simple(part, repo, chance) for part in parts]
    return [
        *simple,
        Play(PRODUCT, _roadmap(repo, chance)),
        Play(PRODUCT, _flaky(repo)),
        Play(PRODUCT, _reviewed(repo, chance)),
        Play(PRODUCT, _lasting(repo)),
        Play(PRODUCT, "---\nname: logo\ncapabilities: [has:figma]\n---\n# Draw the new logo\n"),
        # The second may come to its end while the money does; then the third waits for more.
        *(Play(STUDIO, _costly(number, repo)) for number in (1, 2, 3)),
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


def _simple(part: str, repo: str, chance: random.Random) -> Play:
    title = f"# Make the {part} quicker\n"
    head = _head(name=part, repo=repo, verify=f"test -s {part}.txt", ship_policy="auto")
    return Play(PRODUCT, head + title + _work(part, chance))


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

"""The front page of `aq`: where each command lives, and the help that nothing is imported for."""

GROUPS: dict[str, dict[str, str]] = {
    "Jobs": {
        "submit": "submit",
        "check": "check",
        "jobs": "jobs",
        "show": "show",
        "dag": "dag",
        "events": "events",
        "logs": "logs",
        "diff": "diff",
        "artifacts": "artifacts",
        "archive": "archive",
        "explain": "explain",
    },
    "Decide": {
        "attention": "attention",
        "dash": "dash",
        "notify": "notify",
        "approve": "actions",
        "reject": "actions",
        "request-changes": "actions",
        "request-review": "actions",
        "ship": "actions",
        "requeue": "actions",
        "cancel": "actions",
        "promote": "actions",
        "preempt": "actions",
        "release": "actions",
        "override-scope": "actions",
        "defect": "defect",
    },
    "Fleet": {
        "factory": "factory",
        "autoscale": "autoscale",
        "halt": "halt",
        "resume": "resume",
        "product": "product",
        "budget": "budget",
        "profiles": "profiles",
        "tokens": "tokens",
        "login": "login",
        "audit": "audit",
        "from-tracker": "from_tracker",
        "to-tracker": "to_tracker",
        "insights": "insights",
        "routing": "routing",
        "shadow": "shadow",
    },
    "Folder": {
        "add": "add",
        "status": "status",
        "run": "run",
        "recover": "recover",
        "clean": "clean",
    },
    "Run": {
        "up": "up",
        "demo": "demo",
        "serve": "serve",
        "mcp": "mcp",
        "gc": "gc",
        "doctor": "doctor",
        "config": "config",
        "completion": "completion",
        "version": "version",
    },
}
"""The commands by group, each with its module in this package."""

MODULES = {name: module for group in GROUPS.values() for name, module in group.items()}

PAGE = """\
aq turns written intent into shipped software on a fleet of machines.

  aq up                     run a coordinator on this machine, data and all
  aq submit fix-login.md    hand in a job: a markdown file, settings on top
  aq jobs                   see what there is, and where each job stands
  aq logs -f fix-login      watch one at work
  aq attention              see what waits for you; then approve, ship, …
  aq run --once             work on this folder's inbox, with no service

{groups}

`aq COMMAND --help` explains a command; `--json` prints what the API answers.
`aq doctor` says what is missing, `aq config` which settings hold, and why.\
"""

WIDTH = 80


def page() -> str:
    """The help of `aq` itself; it fits a small screen."""
    return PAGE.format(groups="\n".join(_lines(name, list(GROUPS[name])) for name in GROUPS))


def _lines(group: str, commands: list[str]) -> str:
    lines, line = [], f"{group:<8}"
    for command in commands:
        if len(line) + 1 + len(command) > WIDTH:
            lines.append(line)
            line = " " * 8
        line += f" {command}"
    return "\n".join([*lines, line])

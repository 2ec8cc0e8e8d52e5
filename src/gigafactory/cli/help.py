"""The front page of `aq`: where each command lives, and the help that nothing is imported for."""

GROUPS: dict[str, dict[str, str]] = {
    "Jobs": {
        "submit": "jobs.submit",
        "check": "jobs.check",
        "jobs": "jobs.jobs",
        "show": "jobs.show",
        "dag": "jobs.dag",
        "events": "jobs.events",
        "logs": "jobs.logs",
        "diff": "jobs.diff",
        "artifacts": "jobs.artifacts",
        "archive": "jobs.archive",
        "explain": "jobs.explain",
    },
    "Decide": {
        "attention": "decide.attention",
        "dash": "decide.dash",
        "notify": "decide.notify",
        "approve": "decide.actions",
        "reject": "decide.actions",
        "request-changes": "decide.actions",
        "request-review": "decide.actions",
        "ship": "decide.actions",
        "requeue": "decide.actions",
        "cancel": "decide.actions",
        "promote": "decide.actions",
        "preempt": "decide.actions",
        "release": "decide.actions",
        "override-scope": "decide.actions",
        "defect": "decide.defect",
    },
    "Fleet": {
        "factory": "fleet.factory",
        "autoscale": "fleet.autoscale",
        "halt": "fleet.halt",
        "resume": "fleet.halt",
        "product": "fleet.product",
        "budget": "fleet.budget",
        "profiles": "fleet.profiles",
        "tokens": "fleet.tokens",
        "login": "fleet.tokens",
        "audit": "fleet.audit",
        "from-tracker": "fleet.tracker",
        "to-tracker": "fleet.tracker",
        "insights": "fleet.insights",
        "routing": "fleet.routing",
        "shadow": "fleet.shadow",
    },
    "Folder": {
        "add": "folder.add",
        "status": "folder.status",
        "run": "folder.run",
        "recover": "folder.recover",
        "clean": "folder.clean",
    },
    "Run": {
        "up": "serve.up",
        "demo": "serve.demo",
        "serve": "serve.serve",
        "mcp": "serve.mcp",
        "gc": "serve.gc",
        "doctor": "serve.doctor",
        "config": "serve.config",
        "completion": "serve.version",
        "version": "serve.version",
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

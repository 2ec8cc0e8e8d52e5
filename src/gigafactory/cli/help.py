"""Help page of `aq` and the module of each command; imports nothing."""

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
        "projects": "serve.projects",
        "doctor": "serve.doctor",
        "config": "serve.config",
        "completion": "serve.version",
        "version": "serve.version",
    },
}
"""Commands by group, each with its module in this package."""

MODULES = {name: module for group in GROUPS.values() for name, module in group.items()}

PAGE = """\
aq turns written intent into shipped software on a fleet of machines.

  aq up                     run a coordinator and a factory on this machine
  aq submit fix-login.md    submit a job: a markdown file with settings on top
  aq jobs                   list jobs and their stages
  aq logs -f fix-login      follow the log of a job
  aq attention              list what needs you; then approve, ship, …
  aq run --once             run the jobs of this folder, without a service

{groups}

`aq COMMAND --help` explains a command; `--json` prints the API's response.
`aq doctor` checks this machine; `aq config` shows settings and their origin.\
"""

WIDTH = 80


def page() -> str:
    """Return the help of `aq`; fits 80 columns."""
    return PAGE.format(groups="\n".join(_lines(name, list(GROUPS[name])) for name in GROUPS))


def _lines(group: str, commands: list[str]) -> str:
    lines, line = [], f"{group:<8}"
    for command in commands:
        if len(line) + 1 + len(command) > WIDTH:
            lines.append(line)
            line = " " * 8
        line += f" {command}"
    return "\n".join([*lines, line])

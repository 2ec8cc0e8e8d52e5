"""Every setting with its meaning and default."""

import re
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gigafactory.config.data_dir import HOST, PORT
from gigafactory.domain.fleet.factory import OFFLINE_AFTER
from gigafactory.domain.job.job import Priority
from gigafactory.domain.job.token_price import Price
from gigafactory.domain.tenancy.dispatch_mode import DispatchMode

_PUBLIC_URL = re.compile(r"https?://[A-Za-z0-9.-]+(?::[0-9]{1,5})?")

Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Count = Annotated[int, Meta(ge=1)]


class Section(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"
):
    """One table of `aq.toml`."""


class ServerSettings(Section, frozen=True):
    """Network address of the coordinator."""

    host: str = HOST
    """Address to listen on; the default accepts only connections from this machine."""
    port: Annotated[int, Meta(ge=0, le=65535)] = PORT
    """Port to listen on; 0 picks a free one."""
    hosts: tuple[str, ...] = ()
    """Accepted host names besides this machine's; empty: any, unless listening on loopback."""
    public_url: str | None = None
    """URL at which people and factories reach it, `https://fleet.example.com`; pages only there."""
    metrics_open: bool = False
    """Serve `/metrics` without a token to other machines too."""

    def __post_init__(self) -> None:
        """Refuse a public URL that is more, or less, than scheme and host."""
        if self.public_url is not None and not _PUBLIC_URL.fullmatch(self.public_url):
            message = (
                f"server.public-url is {self.public_url!r}: expected scheme and host, without a"
                " path or slash at the end, like https://fleet.example.com"
            )
            raise ValueError(message)


OUTAGE_NOTICED_S = 15.0
"""After an outage of at least this long, a coordinator extends all leases by its length."""


class LeaseSettings(Section, frozen=True):
    """Duration and renewal of leases."""

    ttl: Seconds = 90.0
    """Seconds without renewal after which a factory loses its job."""
    renew_every: Seconds = 20.0
    """Seconds between lease renewals; less than half of `lease.ttl`."""

    def __post_init__(self) -> None:
        """Refuse a renewal interval at which one lost response costs the lease."""
        if self.renew_every >= self.ttl / 2:
            message = (
                f"lease.renew-every is {self.renew_every:g} s and lease.ttl is {self.ttl:g} s:"
                " set lease.renew-every to less than half of lease.ttl"
            )
            raise ValueError(message)


class FleetSettings(Section, frozen=True):
    """Settings for all factories together."""

    seats: dict[str, Count] = {}
    """Maximum concurrent runs of an engine in the whole fleet: `claude = 4`."""
    heartbeat_every: Seconds = 15.0
    """Seconds between heartbeats; less than half of the 90 s after which a factory is offline."""
    preempt_for: tuple[Priority, ...] = (Priority.CRITICAL,)
    """Priorities whose jobs may preempt less urgent ones; an empty list disables preemption."""

    def __post_init__(self) -> None:
        """Refuse a heartbeat interval at which one lost heartbeat makes a factory offline."""
        offline_s = OFFLINE_AFTER.total_seconds()
        if self.heartbeat_every >= offline_s / 2:
            message = (
                f"fleet.heartbeat-every is {self.heartbeat_every:g} s, and a factory is offline"
                f" after {offline_s:g} s: set it to less than half of that"
            )
            raise ValueError(message)


class DispatchSettings(Section, frozen=True):
    """How jobs reach factories, unless `aq shadow mode` sets it for a product."""

    mode: DispatchMode = DispatchMode.PUSH
    """`push`: offered; `pull`: factories ask; `shadow`: factories ask, offers are compared only."""


class RequestLimits(Section, frozen=True):
    """Limits per caller."""

    requests_per_second: Annotated[float, Meta(gt=0, le=1e6)] = 2000.0
    """Sustained requests per second of one token."""
    burst: Annotated[float, Meta(ge=1, le=1e6)] = 4000.0
    """Burst of requests of one token after an idle time."""
    artifact_bytes: Annotated[int, Meta(ge=1, le=1 << 40)] = 256 << 20
    """Maximum size of one artifact in bytes."""


class RetentionSettings(Section, frozen=True):
    """How long finished jobs are kept with their events, runs, logs and artifacts."""

    days: Annotated[float, Meta(gt=0, le=36_500)] = 90.0
    """Days that a finished job is kept; longer while an unfinished job depends on it."""
    then: Literal["archive", "delete"] = "archive"
    """What happens then: `archive` to one compressed file in blob storage, or `delete`."""


class LogSettings(Section, frozen=True):
    """The coordinator's own log, on stderr."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Minimum log level."""
    format: Literal["text", "json"] = "text"
    """`text` for people, or `json` with one object per line for log collectors."""


class ForgeSettings(Section, frozen=True):
    """Access to pull requests of a host; `api` defaults to `https://<host>/api/v3`."""

    token_env: Annotated[str, Meta(min_length=1)]
    """Name of the variable with the token; only the factory uses it."""
    kind: Literal["github"] = "github"
    """Protocol of the host."""
    api: str | None = None
    """URL of the API, if it is not the default."""
    products: Annotated[tuple[str, ...], Meta(min_length=1)] = ("*",)
    """Products whose jobs may use this host; jobs of others are refused. `"*"`: all."""


class FactorySettings(Section, frozen=True):
    """This machine as a factory."""

    id: str | None = None
    """Name in the fleet; default: the host name."""
    slots: Count | None = None
    """Concurrent runs on this machine; default: one for every two CPUs."""
    seats: dict[str, Annotated[int, Meta(ge=0, le=1000)]] = {}
    """Concurrent runs of an engine, default 1: `claude = 2`; 0 disables the engine."""
    source: Literal["stream", "gate", "poll"] = "stream"
    """How work arrives: `stream` of offers, `gate` polls when the queue changes, `poll` always."""
    inbox: Path | None = None
    """Folder queue that this machine works on besides fleet jobs."""
    repos: Path | None = None
    """Folder with checkouts: jobs that name a repo find it there."""
    roots: tuple[Path, ...] = ()
    """Folders below which jobs may name repos by path and work in place (`cwd`); default: none."""
    addresses: dict[str, str] = {}
    """Clone URLs by the repo name that jobs use: `notes = "git@host:me/notes.git"`."""
    forges: dict[str, ForgeSettings] = {}
    """Hosts with pull requests besides github.com: `"git.acme.com" = {token-env = "TOKEN"}`."""
    allow_repo: tuple[str, ...] = ("*",)
    """Repos that jobs may name: shell patterns for names and URLs."""
    sandbox: Literal["none", "workspace", "strict"] | None = None
    """Minimum sandbox of every run; default: `workspace` where the sandbox tool works."""
    yolo_without_sandbox: bool = False
    """Take `yolo` jobs without a sandbox: they can do whatever the factory's user can do."""
    readable: tuple[Path, ...] = ()
    """More folders that sandboxed runs may read; by default the system, toolchains and PATH."""
    allow_hosts: tuple[str, ...] = ()
    """Hosts that `strict` runs may reach: `api.example.com`, `*.example.org:8443`."""
    env: tuple[str, ...] = ()
    """Names of variables that jobs may request with `env`."""
    prices: dict[str, Price] = {}
    """USD per million tokens of models without a list price: `"my-*" = {input = 1, output = 4}`."""
    labels: tuple[str, ...] = ()
    """Labels that describe this machine to people."""
    cost_class: Annotated[int, Meta(ge=0, le=3)] = 1
    """Cost class of this machine, 0 (free) to 3; low-budget jobs prefer low classes."""
    disk_floor: Annotated[float, Meta(ge=0)] = 2.0
    """GiB of free disk below which the factory takes no new jobs."""
    run_memory: Annotated[float, Meta(gt=0)] | None = None
    """Memory limit of a run in GiB, where control groups are available."""
    run_processes: Count | None = None
    """Maximum processes and threads of a run."""
    run_cpus: Annotated[float, Meta(gt=0)] | None = None
    """Maximum CPUs of a run."""
    setup_timeout: Seconds = 1800.0
    """Time limit of each setup command in seconds."""
    verify_timeout: Seconds = 3600.0
    """Time limit of a verify in seconds."""
    checkpoint_every: Seconds = 180.0
    """Seconds between checkpoints of a running job."""
    gc_every: Seconds = 3600.0
    """Seconds between garbage collections (`aq gc`) of a running factory."""


class FolderSettings(Section, frozen=True):
    """Settings of a folder queue; read from the folder's `aq.toml`."""

    protected_paths: tuple[str, ...] = ()
    """Globs of paths whose changes a person must review and ship."""
    fleet: bool = False
    """`aq run` also takes jobs of the fleet, like `aq factory run --inbox`."""


NotificationKind = Literal[
    "review",
    "phase",
    "ship",
    "failed",
    "unroutable",
    "late",
    "factory_offline",
    "factory_twin",
    "engine_unavailable",
    "budget",
    "routing_tripped",
]


class ChannelSettings(Section, frozen=True):
    """A notification channel; its URL is in a variable or file, never in the settings."""

    url_env: Annotated[str, Meta(min_length=1)] | None = None
    """Name of the variable with the apprise URL: `slack://…`, `mailtos://…`."""
    url_file: Path | None = None
    """File with the URL; several URLs on separate lines."""
    products: tuple[str, ...] = ("*",)
    """Products to notify about; factories are included only with all products (`*`)."""
    kinds: tuple[NotificationKind, ...] = ()
    """Kinds of notification to send; default: all."""

    def __post_init__(self) -> None:
        """Refuse a channel without a URL, or with two."""
        if (self.url_env is None) == (self.url_file is None):
            message = "a channel needs exactly one of url-env and url-file"
            raise ValueError(message)


class NotifySettings(Section, frozen=True):
    """Notifications about attention items; `aq notify --test` sends a test message."""

    channels: dict[str, ChannelSettings] = {}
    """Channels by name: `ops = {url-env = "OPS_URL", products = ["notes"], kinds = ["review"]}`."""
    quiet: Annotated[float, Meta(ge=0, le=86_400)] = 300.0
    """Seconds after a message during which new items are collected for the next one."""
    local: bool = False
    """Allow channels on this machine, such as an own ntfy server."""


class ProductTrackerSettings(Section, frozen=True):
    """The ticket system of a product."""

    url: str | None = None
    """`https://github.com/acme/notes`, or the URL of an items API; none: webhooks only."""
    kind: Literal["items", "github", "webhook"] | None = None
    """Kind of tracker, if the URL does not tell."""
    api: str | None = None
    """URL of GitHub's API, if it is not the default."""
    token_env: Annotated[str, Meta(min_length=1)] | None = None
    """Name of the variable with the token."""
    secret_env: Annotated[str, Meta(min_length=1)] | None = None
    """Name of the variable with the webhook secret."""
    repo: str | None = None
    """Repo of tickets that name none; on GitHub the tickets' own repo."""


class TrackerSettings(Section, frozen=True):
    """Jobs from tickets."""

    products: dict[str, ProductTrackerSettings] = {}
    """Tracker of each product, `"*"` for all others: `notes = {url = "https://…"}`."""
    auto: bool = True
    """Import and update tickets automatically."""
    agent: Annotated[str, Meta(min_length=1)] = "agent"
    """User whose assigned tickets become jobs; the label `agent:run` does the same."""
    poll_every: Seconds = 60.0
    """Seconds between checks for new tickets."""


class ShapeSettings(Section, frozen=True):
    """A kind of factory that `aq autoscale` starts and stops."""

    provider: Literal["process", "command"] = "process"
    """How factories are started: `process` on this machine, or `command`."""
    command: tuple[str, ...] = ()
    """Command that is called with `start`, `stop` and `list`."""
    capabilities: tuple[str, ...] = ()
    """Capabilities of each factory; default for processes: those of this machine."""
    engines: dict[str, Annotated[int, Meta(ge=0, le=1000)]] = {}
    """Engines with their seats; default for processes: those of this machine."""
    slots: Annotated[int, Meta(ge=1, le=1000)] = 1
    """Concurrent runs on each factory."""
    products: tuple[str, ...] = ("*",)
    """Products whose jobs they may take."""
    repos: tuple[str, ...] = ()
    """Repos that each factory has from the start."""
    minimum: Annotated[int, Meta(ge=0, le=10_000)] = 0
    """Minimum number of factories; 0 scales to zero."""
    maximum: Annotated[int, Meta(ge=1, le=10_000)] = 4
    """Maximum number of factories."""
    warm: Annotated[int, Meta(ge=0, le=10_000)] = 0
    """Idle factories to keep besides busy ones."""
    backlog: Annotated[int, Meta(ge=1, le=1000)] = 1
    """Jobs that may wait per seat while none exceeds its product's target wait."""
    cool_down: Annotated[float, Meta(ge=0, le=86_400)] = 300.0
    """Seconds of lower demand before a factory is drained."""
    start_within: Seconds = 600.0
    """Seconds that a new factory may take to join before it is given up."""

    def __post_init__(self) -> None:
        """Refuse a command provider without a command, and a minimum above the maximum."""
        if (self.provider == "command") != bool(self.command):
            message = "set `command` if, and only if, the provider of the shape is `command`"
            raise ValueError(message)
        if self.minimum > self.maximum:
            message = f"minimum {self.minimum} exceeds the maximum {self.maximum} of the shape"
            raise ValueError(message)


ShapeName = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,29}$")]


class AutoscaleSettings(Section, frozen=True):
    """Settings of `aq autoscale`."""

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,39}$")] | None = None
    """Prefix of its factories' names; default: the host name."""
    shapes: dict[ShapeName, ShapeSettings] = {}
    """Shapes by name, in order of preference: `linux = {engines = {claude = 2}}`."""
    poll_every: Seconds = 5.0
    """Seconds between checks when no event arrives."""


class ClientSettings(Section, frozen=True):
    """How `aq` reaches the coordinator."""

    url: str | None = None
    """URL of the coordinator; default: the one that uses the same data folder."""
    token: str | None = None
    """Token to use; default without a URL: `admin.token` of the data folder."""
    product: str | None = None
    """Product that commands use if they name none."""
    dash: Literal["fleet", "folder"] | None = None
    """What `aq dash` shows; default: the current folder queue if no fleet is configured."""


class Config(Section, frozen=True):
    """All settings."""

    data: Path
    """Data folder: embedded store, blobs, `admin.token`, server address."""
    store: str
    """Store URL: `sqlite:///…`, `postgresql://…`, or `memory:` for tests."""
    blobs: str
    """Blob storage URL: `file:///…`, `s3://bucket/…` or `az://container/…`."""
    history: Path | None = None
    """Write every commit request and result to this file, for offline consistency checking."""
    server: ServerSettings = ServerSettings()
    lease: LeaseSettings = LeaseSettings()
    fleet: FleetSettings = FleetSettings()
    dispatch: DispatchSettings = DispatchSettings()
    limits: RequestLimits = RequestLimits()
    retention: RetentionSettings = RetentionSettings()
    log: LogSettings = LogSettings()
    factory: FactorySettings = FactorySettings()
    folder: FolderSettings = FolderSettings()
    notify: NotifySettings = NotifySettings()
    tracker: TrackerSettings = TrackerSettings()
    autoscale: AutoscaleSettings = AutoscaleSettings()
    client: ClientSettings = ClientSettings()

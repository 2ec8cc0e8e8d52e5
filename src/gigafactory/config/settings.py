"""Every setting: what it means, and what it is without being set."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gigafactory.config.data_dir import HOST, PORT
from gigafactory.domain.fleet.factory import OFFLINE_AFTER
from gigafactory.domain.job.job import Priority
from gigafactory.domain.job.token_price import Price
from gigafactory.domain.tenancy.dispatch_mode import DispatchMode

Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Count = Annotated[int, Meta(ge=1)]


class Section(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"
):
    """One table of `aq.toml`."""


class Server(Section, frozen=True):
    """Where the coordinator listens."""

    host: str = HOST
    """The address to listen on; the default is reached from this machine only."""
    port: Annotated[int, Meta(ge=0, le=65535)] = PORT
    """The port to listen on; 0 takes any free one."""
    hosts: tuple[str, ...] = ()
    """The names that it answers to, beside this machine's own; empty: any, unless on loopback."""
    metrics_open: bool = False
    """Whether `/metrics` is answered without a token to other machines too."""


OUTAGE_NOTICED_S = 15.0
"""A coordinator that was away for so long lengthens all leases by that; for less it does not."""


class Lease(Section, frozen=True):
    """How long a factory keeps a job without a word."""

    ttl: Seconds = 90.0
    """Seconds of silence after which a job is taken from its factory."""
    renew_every: Seconds = 20.0
    """Seconds between a factory's renewals; less than half of `lease.ttl`."""

    def __post_init__(self) -> None:
        """Refuse renewals so rare that one lost answer costs the lease."""
        if self.renew_every >= self.ttl / 2:
            message = (
                f"lease.renew-every is {self.renew_every:g} s and lease.ttl is {self.ttl:g} s:"
                " renewals must come at less than half of the ttl"
            )
            raise ValueError(message)


class Fleet(Section, frozen=True):
    """What holds for all factories together."""

    seats: dict[str, Count] = {}
    """How many runs of an engine may go on at once in the whole fleet: `claude = 4`."""
    heartbeat_every: Seconds = 15.0
    """Seconds between a factory's heartbeats; less than half of the 90 s that make it offline."""
    preempt_for: tuple[Priority, ...] = (Priority.CRITICAL,)
    """The priorities whose jobs may have a less urgent one make way; none turns it off."""

    def __post_init__(self) -> None:
        """Refuse heartbeats so rare that one lost makes a factory look dead."""
        offline_s = OFFLINE_AFTER.total_seconds()
        if self.heartbeat_every >= offline_s / 2:
            message = (
                f"fleet.heartbeat-every is {self.heartbeat_every:g} s, and a factory is offline"
                f" after {offline_s:g} s: heartbeats must come at less than half of that"
            )
            raise ValueError(message)


class Dispatch(Section, frozen=True):
    """How jobs reach factories, of products for which `aq shadow mode` has not set it."""

    mode: DispatchMode = DispatchMode.PUSH
    """`push`: offered; `pull`: asked for; `shadow`: asked for, and offers are only compared."""


class Limits(Section, frozen=True):
    """How much one caller may ask."""

    requests_per_second: Annotated[float, Meta(gt=0, le=1e6)] = 2000.0
    """Requests a second of one token, steadily."""
    burst: Annotated[float, Meta(ge=1, le=1e6)] = 4000.0
    """Requests of one token at once, after a quiet while."""
    artifact_bytes: Annotated[int, Meta(ge=1, le=1 << 40)] = 256 << 20
    """Bytes that one artifact may have."""


class Retention(Section, frozen=True):
    """How long finished jobs are kept, with their events, runs, logs and artifacts."""

    days: Annotated[float, Meta(gt=0, le=36_500)] = 90.0
    """Days after its end that a job is kept; unless an unfinished one depends on it."""
    then: Literal["archive", "delete"] = "archive"
    """What becomes of it then: one compressed file among the blobs, or nothing."""


class Log(Section, frozen=True):
    """What the coordinator writes about its own work, to stderr."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least that is worth a line."""
    format: Literal["text", "json"] = "text"
    """Lines for people, or one JSON object a line for collectors."""


class ForgeHost(Section, frozen=True):
    """How a host's pull requests are reached; its `api` is `https://<host>/api/v3` by itself."""

    token_env: Annotated[str, Meta(min_length=1)]
    """The variable that holds the token; it is used by the factory alone."""
    kind: Literal["github"] = "github"
    """What it speaks."""
    api: str | None = None
    """The address of its API, where it is not the usual one."""


class Factory(Section, frozen=True):
    """What this machine does as a factory."""

    id: str | None = None
    """Its name in the fleet; without it, the host's."""
    slots: Count | None = None
    """Runs at once on this machine; without it, one for every two processors."""
    seats: dict[str, Annotated[int, Meta(ge=0, le=1000)]] = {}
    """Runs at once of an engine, where it is not one: `claude = 2`; 0 leaves it out."""
    source: Literal["stream", "gate", "poll"] = "stream"
    """How work comes: pushed, asked for when the queue has moved, or asked for always."""
    inbox: Path | None = None
    """A folder of job files that this machine works on beside what the fleet offers."""
    repos: Path | None = None
    """A folder of checkouts: a job that names a repo finds it there."""
    roots: tuple[Path, ...] = ()
    """Folders of people below which jobs may work in place (`cwd`); without it, no job may."""
    addresses: dict[str, str] = {}
    """Where repos are cloned from, by the name that jobs use: `notes = "git@host:me/notes.git"`."""
    forges: dict[str, ForgeHost] = {}
    """Hosts with pull requests beside github.com: `"git.acme.com" = {token-env = "ACME_TOKEN"}`."""
    allow_repo: tuple[str, ...] = ("*",)
    """Which repos jobs may name: shell patterns over names and addresses."""
    sandbox: Literal["none", "workspace", "strict"] | None = None
    """The least that every run is kept in; without it, `workspace` where the tool exists."""
    allow_hosts: tuple[str, ...] = ()
    """What runs in the sandbox `strict` may reach: `api.example.com`, `*.example.org:8443`."""
    env: tuple[str, ...] = ()
    """Names of variables that a job may ask for with `env`."""
    prices: dict[str, Price] = {}
    """USD for 1M tokens of a model without a listed price: `"my-*" = {input = 1, output = 4}`."""
    labels: tuple[str, ...] = ()
    """Words by which people tell machines apart."""
    cost_class: Annotated[int, Meta(ge=0, le=3)] = 1
    """How dear its seats are, from 0 (free) to 3: jobs with little budget go to cheap ones."""
    disk_floor: Annotated[float, Meta(ge=0)] = 2.0
    """GiB that must be free under the data folder: with less, nothing new is taken."""
    run_memory: Annotated[float, Meta(gt=0)] | None = None
    """GiB that all programs of a run may have together, where there is a control group for it."""
    run_processes: Count | None = None
    """How many processes and threads a run may have."""
    run_cpus: Annotated[float, Meta(gt=0)] | None = None
    """How many processors a run may keep busy."""
    setup_timeout: Seconds = 1800.0
    """Seconds that each command of a setup may take."""
    verify_timeout: Seconds = 3600.0
    """Seconds that a verify may take."""
    checkpoint_every: Seconds = 180.0
    """Seconds between two times that the work of a run is saved while it goes on."""
    gc_every: Seconds = 3600.0
    """Seconds between two rounds of housekeeping (`aq gc`) while it works."""


class Folder(Section, frozen=True):
    """What holds for the jobs of a folder; it counts where it stands in the folder's `aq.toml`."""

    protected_paths: tuple[str, ...] = ()
    """Globs of what a person must look at, and ship, when a job has changed it."""
    fleet: bool = False
    """Whether `aq run` takes jobs of the fleet as well, as `aq factory run --inbox` does."""


Told = Literal[
    "review",
    "phase",
    "ship",
    "failed",
    "unroutable",
    "late",
    "factory_offline",
    "engine_unavailable",
    "budget",
    "routing_tripped",
]


class NotifyChannel(Section, frozen=True):
    """One channel: its address is in a variable or in a file, never in the settings themselves."""

    url_env: Annotated[str, Meta(min_length=1)] | None = None
    """The variable that holds the address, as apprise writes it: `slack://…`, `mailtos://…`."""
    url_file: Path | None = None
    """A file that holds it; several addresses stand on lines of their own."""
    products: tuple[str, ...] = ("*",)
    """Of which products it hears; only one that hears of all hears of factories."""
    kinds: tuple[Told, ...] = ()
    """Of what it hears; without any, of all that there is."""

    def __post_init__(self) -> None:
        """Refuse a channel without an address, or with two."""
        if (self.url_env is None) == (self.url_file is None):
            message = "a channel has one of url-env and url-file: where its address is"
            raise ValueError(message)


class Notify(Section, frozen=True):
    """How people hear of what needs them; `aq notify --test` tries it."""

    channels: dict[str, NotifyChannel] = {}
    """By name: `ops = {url-env = "OPS_URL", products = ["notes"], kinds = ["review"]}`."""
    quiet: Annotated[float, Meta(ge=0, le=86_400)] = 300.0
    """Seconds after a message in which further matters are gathered for the next one."""


class TrackerPlace(Section, frozen=True):
    """The tickets of a product: where they are, and what opens them."""

    url: str | None = None
    """`https://github.com/acme/notes`, or the address of an items API; none: webhooks alone."""
    kind: Literal["items", "github", "webhook"] | None = None
    """What it speaks, where the address does not tell."""
    api: str | None = None
    """The address of GitHub's API, where it is not the usual one."""
    token_env: Annotated[str, Meta(min_length=1)] | None = None
    """The variable that holds the token."""
    secret_env: Annotated[str, Meta(min_length=1)] | None = None
    """The variable that holds the secret with which webhooks are signed."""
    repo: str | None = None
    """The repo of tickets that name none; on GitHub it is the tickets' own."""


class Tracker(Section, frozen=True):
    """Working from tickets."""

    products: dict[str, TrackerPlace] = {}
    """The tracker of each product, `"*"` for all others: `notes = {url = "https://…"}`."""
    auto: bool = True
    """Whether tickets are looked for, and told of their jobs, without being asked to."""
    agent: Annotated[str, Meta(min_length=1)] = "agent"
    """The user to whom people assign what agents shall do; the label `agent:run` means the same."""
    poll_every: Seconds = 60.0
    """Seconds between two looks for new tickets."""


class ScaledShape(Section, frozen=True):
    """Factories that `aq autoscale` starts and ends: what each offers, and how many may be."""

    provider: Literal["process", "command"] = "process"
    """Who starts them: this machine as processes of its own, or a command."""
    command: tuple[str, ...] = ()
    """The command, which is called with `start`, `stop` and `list`."""
    capabilities: tuple[str, ...] = ()
    """What each advertises; without any, processes have what this machine has."""
    engines: dict[str, Annotated[int, Meta(ge=0, le=1000)]] = {}
    """Its engines with their seats; without any, processes have those of this machine."""
    slots: Annotated[int, Meta(ge=1, le=1000)] = 1
    """Runs at once on each."""
    products: tuple[str, ...] = ("*",)
    """The products whose jobs they may take."""
    repos: tuple[str, ...] = ()
    """The repos that each has from the start."""
    minimum: Annotated[int, Meta(ge=0, le=10_000)] = 0
    """How many there are always; 0 is none while nothing is to be done."""
    maximum: Annotated[int, Meta(ge=1, le=10_000)] = 4
    """How many there may be at once."""
    warm: Annotated[int, Meta(ge=0, le=10_000)] = 0
    """How many stand by, beside those that have something to do."""
    backlog: Annotated[int, Meta(ge=1, le=1000)] = 1
    """How many jobs may wait for each seat, as long as none is late for its product's target."""
    cool_down: Annotated[float, Meta(ge=0, le=86_400)] = 300.0
    """Seconds for which fewer must have been wanted before one is drained."""
    start_within: Seconds = 600.0
    """Seconds that a new one may take to come to work before it is given up."""

    def __post_init__(self) -> None:
        """Refuse a command provider without a command, and a minimum above the maximum."""
        if (self.provider == "command") != bool(self.command):
            message = "a shape has a `command` where its provider is `command`, and only there"
            raise ValueError(message)
        if self.minimum > self.maximum:
            message = f"a shape's minimum is {self.minimum}, and its maximum {self.maximum}"
            raise ValueError(message)


ShapeName = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,29}$")]


class Autoscale(Section, frozen=True):
    """What `aq autoscale` starts and ends, as jobs come and go."""

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,39}$")] | None = None
    """How the names of its factories begin; without it, as this host is called."""
    shapes: dict[ShapeName, ScaledShape] = {}
    """By name, in the order in which jobs are counted: `linux = {engines = {claude = 2}}`."""
    poll_every: Seconds = 5.0
    """Seconds between two looks, where no event says that something has changed."""


class Client(Section, frozen=True):
    """How `aq` reaches a coordinator."""

    url: str | None = None
    """The coordinator's address; without it, the one that runs on the same data folder."""
    token: str | None = None
    """The token to show; without it, and without an address, the data folder's `admin.token`."""
    product: str | None = None
    """The product that commands are about, where they name none."""
    dash: Literal["fleet", "folder"] | None = None
    """What `aq dash` shows; without it, the folder it is typed in only where no fleet is known."""


class Config(Section, frozen=True):
    """The settings in force."""

    data: Path
    """The folder of the embedded store, blobs, `admin.token` and the server's address."""
    store: str
    """Where records are kept: `sqlite:///…`, `postgresql://…`, or `memory:` to forget them."""
    blobs: str
    """Where logs and artifacts are kept: `file:///…`, `s3://bucket/…` or `az://container/…`."""
    history: Path | None = None
    """A file to note every question and answer in, for an independent checker."""
    server: Server = Server()
    lease: Lease = Lease()
    fleet: Fleet = Fleet()
    dispatch: Dispatch = Dispatch()
    limits: Limits = Limits()
    retention: Retention = Retention()
    log: Log = Log()
    factory: Factory = Factory()
    folder: Folder = Folder()
    notify: Notify = Notify()
    tracker: Tracker = Tracker()
    autoscale: Autoscale = Autoscale()
    client: Client = Client()

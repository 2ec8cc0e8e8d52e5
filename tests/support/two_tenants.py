"""Two tenants of one fleet and all kinds of callers, without a network."""

import asyncio
import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from litestar import Litestar

from gigafactory.api.http.hosts import ServedHosts
from gigafactory.blobs.files import FileBlobs
from gigafactory.coordinator.coordinator import Coordinator
from gigafactory.domain.job.change import RecordChange
from gigafactory.domain.job.job import Stage
from gigafactory.domain.submission.retention import ArchivedJob
from gigafactory.domain.tenancy.access import Role
from gigafactory.server.app import create_application
from gigafactory.store.memory import MemoryStore
from gigafactory.web.site.session import PRODUCT_COOKIE, SESSION_COOKIE, csrf_token
from tests.support.api_server import API, PAGES_HOST, SYSTEM, a_coordinator
from tests.support.builders import NOON

OWN, OTHER, FLEET = "notes", "bravo", "*"
COMMIT = "c0ffee"
HOSTS = ServedHosts(pages=frozenset({PAGES_HOST}), local=PAGES_HOST)
_DIFF = {"base": "0" * 40, "commit": COMMIT, "filesChanged": 0, "linesAdded": 0, "linesDeleted": 0}
_serial = itertools.count(1)


@dataclass(frozen=True)
class Person:
    """A person's token: a role in one product, or in the whole fleet."""

    role: Role
    scope: str

    def __str__(self) -> str:
        """Return the role and scope, for the report of a failure."""
        return f"{self.role} of {'the fleet' if self.scope == FLEET else self.scope}"


@dataclass(frozen=True)
class Machine:
    """A factory's token."""

    scope: str

    def __str__(self) -> str:
        """Return the scope, for the report of a failure."""
        return f"factory of {'the fleet' if self.scope == FLEET else self.scope}"


@dataclass(frozen=True)
class Agent:
    """The token of a running job."""

    scope: str

    def __str__(self) -> str:
        """Return the scope, for the report of a failure."""
        return f"agent of a job of {self.scope}"


NOBODY, STRANGER, REVOKED, SESSION = "nobody", "stranger", "revoked token", "session of a browser"
Caller = Person | Machine | Agent | str
PEOPLE = tuple(Person(role, scope) for role in Role for scope in (OWN, OTHER, FLEET))
CALLERS: tuple[Caller, ...] = (
    *(NOBODY, STRANGER, REVOKED, SESSION),
    *PEOPLE,
    *(Machine(scope) for scope in (OWN, OTHER, FLEET)),
    *(Agent(scope) for scope in (OWN, OTHER)),
)


@dataclass(frozen=True)
class Answer:
    """The status, headers and received text of a response."""

    status: int
    text: str
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def json(self) -> Any:  # noqa: ANN401 - JSON
        """Return the parsed JSON document."""
        return json.loads(self.text)


async def ask(app: Litestar, method: str, place: str, body: bytes = b"", **headers: str) -> Answer:
    """Call the application and return its response; leave a stream as soon as it has started."""
    path, _, query = place.partition("?")
    given = {"host": "127.0.0.1", "content-length": str(len(body)), **headers}
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(k.replace("_", "-").encode(), v.encode()) for k, v in given.items()],
        # A separate address: the wrong tokens of one caller must not block another.
        "client": (f"10.0.{next(_serial) // 250 % 250}.{next(_serial) % 250}", 1),
        "server": ("127.0.0.1", 80),
        "state": {},
    }
    sent: list[dict[str, Any]] = []
    begun = asyncio.Event()
    unread = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if unread:
            return unread.pop()
        await asyncio.Event().wait()
        raise AssertionError("nobody disconnects")

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)
        if message["type"] == "http.response.start":
            begun.set()

    call = asyncio.create_task(app(scope, receive, send))  # type: ignore[arg-type]
    waiting = asyncio.create_task(begun.wait())
    await asyncio.wait({call, waiting}, return_when=asyncio.FIRST_COMPLETED)
    result = {k.decode(): v.decode() for k, v in sent[0]["headers"]} if sent else {}
    if "event-stream" in result.get("content-type", ""):
        call.cancel()
    waiting.cancel()
    await asyncio.gather(call, waiting, return_exceptions=True)
    text = b"".join(m.get("body", b"") for m in sent[1:]).decode("utf-8", "replace")
    return Answer(sent[0]["status"], text, result)


class TwoTenants:
    """Two products with their factories, jobs and tokens, as the target of all calls."""

    def __init__(self, folder: Path) -> None:
        self.store = MemoryStore()
        self.blobs = FileBlobs(folder / "blobs")
        self.coordinator: Coordinator = a_coordinator(folder, store=self.store, blobs=self.blobs)
        self.app = create_application(self.coordinator, hosts=HOSTS)
        self.secrets: dict[Caller, str] = {STRANGER: "gfo_wrong"}
        self.sessions: dict[Person, str] = {}
        self.job = ""
        """A job of the own product that no factory can take, with a file."""
        self.artifact = ""
        self.leased: dict[str, Any] = {}
        """A grant of the own factory: the job of the own agent, with a log and a diff."""
        self.composite = ""
        self.archived = "01archived"

    async def build(self) -> "TwoTenants":
        """Create all tokens, factories and jobs, and return the world."""
        await self.coordinator.load()
        for person in PEOPLE:
            name = f"{person.role}-{'fleet' if person.scope == FLEET else person.scope}"
            made = await self.coordinator.tokens.issue(SYSTEM, name, person.role, (person.scope,))
            self.secrets[person] = made.secret
        await self._add_useless_secrets()
        for machine in (Machine(OWN), Machine(OTHER), Machine(FLEET)):
            self.secrets[machine] = await self.factory(machine_id(machine), machine.scope)
        for scope in (OWN, OTHER):
            grant = await self.lease(Machine(scope))
            job, epoch = grant["job"]["id"], {"leaseEpoch": grant["leaseEpoch"]}
            made_token = await self.call(Machine(scope), "POST", f"/jobs/{job}/token", epoch)
            self.secrets[Agent(scope)] = made_token.json["token"]
            if scope == OWN:
                self.leased = grant
        await self._fill_leased()
        self.job = await self.submit(capabilities=["os:none"])
        self.artifact = await self.attach(self.job)
        roadmap = {"kind": "composite", "children": [{"name": "child", "body": "x"}]}
        self.composite = await self.submit(**roadmap)
        await self._archive()
        await self.coordinator.index.catch_up()
        return self

    async def _add_useless_secrets(self) -> None:
        """Add a revoked token, and the session of a browser, of an admin of everything."""
        self.secrets[SESSION] = await self.sign_in(Person(Role.ADMIN, FLEET))
        made = await self.coordinator.tokens.issue(SYSTEM, "left", Role.ADMIN, (FLEET,))
        await self.coordinator.tokens.revoke(SYSTEM, made.token.id)
        self.secrets[REVOKED] = made.secret

    async def _fill_leased(self) -> None:
        job, epoch = self.leased["job"]["id"], self.leased["leaseEpoch"]
        place = f"/jobs/{job}/logs?leaseEpoch={epoch}&offset=0"
        logged = await self.call(Machine(OWN), "POST", place, b"a line\n")
        assert logged.status == 200, logged.text
        diff = json.dumps(_DIFF | {"text": "diff --git a/x b/x\n"}).encode()
        query = {"name": "diff.json", "purpose": "diff", "leaseEpoch": epoch}
        query |= {"mediaType": "application/json", "sha256": sha256(diff).hexdigest()}
        place = f"/jobs/{job}/artifacts?{urlencode(query)}"
        sent = await self.call(Machine(OWN), "POST", place, diff)
        assert sent.status == 201, sent.text

    async def _archive(self) -> None:
        data = b"archived"
        record = ArchivedJob(
            job_id=self.archived,
            product_id=OWN,
            name="old",
            title="Old",
            stage=Stage.SHIPPED,
            created_at=NOON,
            finished_at=NOON,
            archived_at=NOON,
            size=len(data),
            sha256=sha256(data).hexdigest(),
        )
        await self.blobs.put_new(record.blob, data)
        await self.store.commit(RecordChange(before=None, after=record))

    async def call(
        self, caller: Caller, method: str, place: str, document: object = None
    ) -> Answer:
        """Call the API as this caller; send bytes unchanged."""
        return await self.call_with(self.secrets.get(caller), caller, method, place, document)

    async def call_with(
        self, secret: str | None, caller: Caller, method: str, place: str, document: object
    ) -> Answer:
        """Call the API with this token."""
        raw = isinstance(document, bytes)
        body = document if isinstance(document, bytes) else b""
        headers = {"content_type": "application/octet-stream" if raw else "application/json"}
        if secret is not None:
            headers["authorization"] = f"Bearer {secret}"
        if isinstance(caller, Person) and caller.scope == FLEET:
            headers["x_product_id"] = OWN
        if document is not None and not raw:
            body = json.dumps(document).encode()
        on_root = place.startswith(("/healthz", "/readyz", "//"))
        path = f"/{place.lstrip('/')}" if on_root else API + place
        return await ask(self.app, method, path, body, **headers)

    async def sign_in(self, person: Person) -> str:
        """Sign a browser in; return the secret of its session."""
        if person not in self.sessions:
            made = await self.coordinator.logins.sign_in_with_token(self.secrets[person])
            self.sessions[person] = made.secret
        return self.sessions[person]

    def own_names(self) -> tuple[str, ...]:
        """Return the names and ids of the own product that no other product may hear of."""
        jobs = (self.job, self.leased["job"]["id"], self.composite, self.archived)
        return (*jobs, self.artifact, machine_id(Machine(OWN)), f"admin-{OWN}")

    async def open_page(self, person: Person | None, place: str) -> Answer:
        """Open a page, or start a live stream, as this signed-in person."""
        headers = {"host": PAGES_HOST}
        if person is not None:
            headers["cookie"] = f"{SESSION_COOKIE}={await self.sign_in(person)}"
        return await ask(self.app, "GET", place, b"", **headers)

    async def send_form(self, person: Person | None, place: str, form: object) -> Answer:
        """Send a form or the bytes of an upload as this signed-in person."""
        headers = {
            "host": PAGES_HOST,
            "content_type": "application/x-www-form-urlencoded",
            "accept": "text/html",
        }
        fields: dict[str, str] = dict(form) if isinstance(form, dict) else {}
        if person is not None:
            secret = await self.sign_in(person)
            product = f"; {PRODUCT_COOKIE}={OWN}" if person.scope == FLEET else ""
            headers["cookie"] = f"{SESSION_COOKIE}={secret}{product}"
            headers["x_csrf"] = fields["csrf"] = csrf_token(secret)
        body = form if isinstance(form, bytes) else urlencode(fields).encode()
        return await ask(self.app, "POST", place, body, **headers)

    async def submit(self, **manifest: object) -> str:
        """Submit a job of the own product; return its id."""
        document = {"manifest": {"name": f"job-{next(_serial)}", **manifest}, "body": "Do it."}
        made = await self.call(Person(Role.ADMIN, OWN), "POST", "/jobs", document)
        assert made.status == 201, made.text
        job_id: str = made.json["id"]
        return job_id

    async def attach(self, job: str) -> str:
        """Attach a file to a job; return the id of the artifact."""
        data = str(next(_serial)).encode()
        query = {"name": f"{data.decode()}.txt", "sha256": sha256(data).hexdigest()}
        place = f"/jobs/{job}/artifacts?{urlencode(query | {'mediaType': 'text/plain'})}"
        made = await self.call(Person(Role.ADMIN, OWN), "POST", place, data)
        assert made.status == 201, made.text
        artifact: str = made.json["id"]
        return artifact

    async def lease(self, machine: Machine) -> dict[str, Any]:
        """Have a factory take a new job of its product; return the grant."""
        document = {"manifest": {"name": f"job-{next(_serial)}", "priority": "critical"}}
        person = Person(Role.ADMIN, machine.scope)
        made = await self.call(person, "POST", "/jobs", document | {"body": "Do it."})
        assert made.status == 201, made.text
        await self.coordinator.index.catch_up()
        claim = {"factoryId": machine_id(machine), "max": 1}
        got = await self.call(machine, "POST", "/claim", claim)
        assert got.status == 200, got.text
        grant: dict[str, Any] = got.json["grants"][0]
        return grant

    async def factory(self, factory_id: str, scope: str) -> str:
        """Enroll a factory, send its first heartbeat and return its token."""
        invited = await self.coordinator.enrolment.invite(SYSTEM, (scope,))
        secret = (await self.coordinator.enrolment.enroll(invited.secret, factory_id)).token
        beat = heartbeat(factory_id)
        place = "/factories/heartbeat"
        result = await self.call_with(secret, Machine(scope), "POST", place, beat)
        assert result.status == 200, result.text
        return secret


def machine_id(machine: Machine) -> str:
    """Return the id of a factory."""
    return f"f-{'fleet' if machine.scope == FLEET else machine.scope}"


def heartbeat(factory_id: str) -> dict[str, Any]:
    """Return the document of a heartbeat of a large machine."""
    return {
        "factoryId": factory_id,
        "instanceId": f"{factory_id}-a",
        "capabilities": ["os:linux"],
        "engines": {"claude": {"version": "2.1.0", "seats": 500}},
        "slots": 500,
    }

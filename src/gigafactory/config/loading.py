"""The settings in force: where each may come from, and where its value came from."""

import builtins
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from urllib.parse import quote

import msgspec

from gigafactory.config.data_dir import default_data, find_file
from gigafactory.config.env_vars import FORMER, PREFIX, Always, Renamed, variable
from gigafactory.config.settings import OUTAGE_NOTICED_S, Config, Section
from gigafactory.domain.errors import Fault, Invalid

Layer = dict[str, object]
"""Raw values by their dotted key, `server.port`."""

SECRETS = frozenset({"client.token"})
PATHS = frozenset({"data", "history", "factory.inbox", "factory.repos", "factory.roots"})


@cache
def settings(section: type[msgspec.Struct] = Config, under: str = "") -> Mapping[str, object]:
    """Every setting by its dotted key, in the order of the tree, with the type of its value."""
    found: dict[str, object] = {}
    for field in msgspec.structs.fields(section):
        key = f"{under}{field.encode_name}"
        if isinstance(field.type, type) and issubclass(field.type, Section):
            found |= settings(field.type, f"{key}.")
        else:
            found[key] = field.type
    return found


class Loaded(msgspec.Struct, frozen=True):
    """The settings in force, and where each came from."""

    config: Config
    origins: Mapping[str, str]

    def origin(self, key: str) -> str:
        """Where the value of a setting came from: `default`, a file, a variable or a flag."""
        return self.origins.get(key, "default")

    def shown(self) -> dict[str, object]:
        """Every setting with its value, secrets masked."""
        tree = msgspec.to_builtins(self.config, enc_hook=str)
        values = _flat(tree, [])
        return {key: masked(key, values.get(key)) for key in settings()}


def load(
    environ: Mapping[str, str],
    *,
    file: Path | None = None,
    cwd: Path | None = None,
    flags: Mapping[str, object] | None = None,
) -> Loaded:
    """Merge defaults, file, environment and flags, and check the whole once.

    Raises Invalid, naming every unknown key with its nearest, and every value that is wrong.
    """
    here = cwd or Path.cwd()
    faults: list[Fault] = []
    values: Layer = {}
    origins: dict[str, str] = {}
    place = file or find_file(str(here))
    if place is not None:
        found = Path(place)
        told = _anchored(_flat(_read(found), faults), found.resolve().parent)
        values |= told
        origins |= dict.fromkeys(told, str(found))
    named = _former(environ, faults)
    named |= {k: (name, environ[name]) for k in settings() if environ.get(name := variable(k))}
    values |= _anchored(_spread({key: value for key, (_, value) in named.items()}), here)
    origins |= {key: f"environment {name}" for key, (name, _) in named.items()}
    told = {key: value for key, value in (flags or {}).items() if value is not None}
    values |= _anchored(told, here)
    origins |= dict.fromkeys(told, "flag")
    data = Path(str(values.setdefault("data", default_data(environ))))
    values.setdefault("store", f"sqlite://{_url_path(data / 'fleet.db')}")
    values.setdefault("blobs", f"file://{_url_path(data / 'blobs')}")
    return Loaded(_checked(values, origins, faults), origins)


def unknown_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that look like settings and are none, each with the nearest that is one."""
    known = [*(variable(key) for key in settings()), *FORMER]
    strange = (name for name in environ if name.startswith(PREFIX) and name not in known)
    return {name: _nearest(name, known) for name in strange}


def doubts(config: Config) -> list[str]:
    """What is allowed, and yet not wise: each in a sentence that names the settings."""
    lease = config.lease
    spare = lease.ttl - lease.renew_every
    if spare >= OUTAGE_NOTICED_S:
        return []
    short = (
        f"lease.ttl is {lease.ttl:g} s and lease.renew-every {lease.renew_every:g} s: if the"
        f" coordinator is away for {spare:g} to {OUTAGE_NOTICED_S:g} s, running jobs may be taken"
        f" from their factories; let the ttl be longer by {OUTAGE_NOTICED_S - spare:g} s"
    )
    return [short]


def masked(key: str, value: object) -> object:
    """A value as it may be shown: no token, no password in an address."""
    if key in SECRETS and value:
        return "***"
    if isinstance(value, Mapping):
        # Somebody may have written the token itself where the name of its variable belongs.
        return {k: "***" if k == "token" else masked(key, v) for k, v in value.items()}
    if isinstance(value, str):
        return re.sub(r"(?<=://)([^/@:]*):[^/@]*@", r"\1:***@", value)
    return value


def _read(file: Path) -> dict[str, object]:
    import tomllib

    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        fault = Fault("", f"cannot be read: {error.strerror}; name another with --config")
        raise Invalid(f"the configuration {file}", [fault]) from None
    except ValueError as error:
        raise Invalid(f"the configuration {file}", [Fault("", str(error))]) from None


def _flat(tree: Mapping[str, object], faults: list[Fault], under: str = "") -> Layer:
    """The values of a nested table by their dotted keys; a key that is none becomes a fault."""
    known = settings()
    found: Layer = {}
    for name, value in tree.items():
        key = f"{under}{name}"
        if key in known:
            found[key] = value
        elif isinstance(value, Mapping) and any(each.startswith(f"{key}.") for each in known):
            found |= _flat(value, faults, f"{key}.")
        else:
            faults.append(Fault(key, f"is no setting; the nearest is {_nearest(key, known)}"))
    return found


def _nearest(key: str, known: Iterable[str]) -> str:
    import difflib

    return difflib.get_close_matches(key, list(known), n=1, cutoff=0.0)[0]


def _former(environ: Mapping[str, str], faults: list[Fault]) -> dict[str, tuple[str, str]]:
    """What variables of old say: by the key of the setting, their name and the value for it."""
    told: dict[str, tuple[str, str]] = {}
    for name, meant in FORMER.items():
        value = environ.get(name)
        if not value:
            continue
        if isinstance(meant, Renamed):
            told[meant.key] = name, value
            continue
        try:
            on = msgspec.convert(value, bool, strict=False)
        except msgspec.ValidationError:
            faults.append(Fault(name, f"found {value!r}; expected 1 (on) or 0 (off)"))
            continue
        if not isinstance(meant, Always):
            said = meant.on if on else meant.off
            if said is not None:
                told[meant.key] = name, said
        elif not on:
            faults.append(Fault(name, f"cannot be turned off: {meant.instead}"))
    return told


def _spread(told: Mapping[str, str]) -> Layer:
    """Values of variables: `claude=4,codex=2` for a table, `a,b` for a list."""
    kinds = settings()
    return {key: _read_as(kinds[key], value) for key, value in told.items()}


def _read_as(kind: object, value: str) -> object:
    parts = [part.strip() for part in value.split(",") if part.strip()]
    match getattr(kind, "__origin__", None):
        case builtins.dict:
            return dict(_pair(part) for part in parts)
        case builtins.tuple:
            return parts
        case _:
            return value


def _pair(written: str) -> tuple[str, str]:
    name, _, value = written.partition("=")
    return name.strip(), value.strip()


def _anchored(layer: Layer, folder: Path) -> Layer:
    """The layer with its paths made absolute: they are meant from where they are written."""
    return layer | {key: _absolute(layer[key], folder) for key in PATHS if key in layer}


def _absolute(written: object, folder: Path) -> object:
    if isinstance(written, list):
        return [_absolute(each, folder) for each in written]
    return str(folder / Path(str(written)).expanduser())


def _checked(values: Layer, origins: Mapping[str, str], faults: list[Fault]) -> Config:
    tree: dict[str, object] = {}
    kinds = settings()
    for key, value in values.items():
        try:
            checked = msgspec.convert(value, kinds[key], strict=False, dec_hook=_path)
        except msgspec.ValidationError as error:
            origin = origins.get(key, "default")
            faults.append(Fault(key, f"{error} (found {masked(key, value)!r}; from {origin})"))
        else:
            _put(tree, key, checked)
    if faults:
        raise Invalid("the configuration", faults)
    try:
        return msgspec.convert(tree, Config, dec_hook=_path)
    except msgspec.ValidationError as error:
        sentence = str(error).partition(" - at ")[0]
        raise Invalid("the configuration", [Fault("", sentence)]) from None


def _put(tree: dict[str, object], key: str, value: object) -> None:
    section, _, name = key.rpartition(".")
    place = tree.setdefault(section, {}) if section else tree
    assert isinstance(place, dict)
    place[name] = value


def _url_path(path: Path) -> str:
    """The path as an address has it; on Windows it begins with the drive."""
    plain = quote(path.as_posix(), safe="/:")
    return plain if plain.startswith("/") else f"/{plain}"


def _path(kind: type, value: object) -> object:
    """Paths are written as text; for any other type, msgspec wants to hear that it is unknown."""
    if issubclass(kind, Path) and isinstance(value, str | Path):
        return Path(value)
    raise NotImplementedError

"""Load settings from defaults, file, environment and flags, and remember each origin."""

import builtins
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from urllib.parse import quote

import msgspec

from gigafactory.config.data_dir import LOOPBACK, default_data, find_file
from gigafactory.config.env_vars import PREFIX, variable
from gigafactory.config.legacy_env_vars import LEGACY, AlwaysOnVariable, RenamedVariable
from gigafactory.config.settings import (
    OUTAGE_NOTICED_S,
    Config,
    LeaseSettings,
    Section,
    ServerSettings,
)
from gigafactory.domain.errors import Fault, Invalid

Layer = dict[str, object]
"""Raw values by dotted key, such as `server.port`."""

SECRETS = frozenset({"client.token"})
_PASSWORD = re.compile(r"(?<=://)([^/@:]*):[^/@]*@")
PATHS = frozenset(
    {"data", "history"} | {f"factory.{name}" for name in ("inbox", "readable", "repos", "roots")}
)


FROM_A_CHECKOUT = (
    *("client.dash", "client.product", "dispatch.", "fleet.", "folder.protected-paths", "lease."),
    *("limits.", "log.", "retention.", "factory.slots", "factory.seats", "factory.labels"),
    *("factory.cost-class", "factory.setup-timeout", "factory.verify-timeout", "factory.gc-every"),
)
"""Settings, or groups of them, of a file that was found in a checkout. A repo or a job may have put
it there, so it cannot weaken the sandbox, name programs, or say where tokens are sent."""


@cache
def settings(section: type[msgspec.Struct] = Config, under: str = "") -> Mapping[str, object]:
    """Return the type of every setting by dotted key, in tree order."""
    keys: dict[str, object] = {}
    for field in msgspec.structs.fields(section):
        key = f"{under}{field.encode_name}"
        if isinstance(field.type, type) and issubclass(field.type, Section):
            keys |= settings(field.type, f"{key}.")
        else:
            keys[key] = field.type
    return keys


class Loaded(msgspec.Struct, frozen=True):
    """The settings and the origin of each."""

    config: Config
    origins: Mapping[str, str]

    def origin(self, key: str) -> str:
        """Return where a value came from: `default`, a file, a variable or a flag."""
        return self.origins.get(key, "default")

    def masked_values(self) -> dict[str, object]:
        """Return every setting with its value, secrets masked."""
        tree = msgspec.to_builtins(self.config, enc_hook=str)
        values = _flatten(tree, [])
        return {key: mask(key, values.get(key)) for key in settings()}


def load(
    environ: Mapping[str, str],
    *,
    file: Path | None = None,
    cwd: Path | None = None,
    flags: Mapping[str, object] | None = None,
) -> Loaded:
    """Merge defaults, file, environment and flags, and validate the result.

    Raise Invalid with every unknown key (and the closest known one) and every wrong value.
    """
    here = cwd or Path.cwd()
    faults: list[Fault] = []
    values: Layer = {}
    origins: dict[str, str] = {}
    place = file or find_file(str(here))
    if place is not None:
        config_file = Path(place)
        layer = _resolve_paths(_flatten(_read(config_file), faults), config_file.resolve().parent)
        if file is None:
            faults += _faults_of_checkout(config_file, layer)
        values |= layer
        origins |= dict.fromkeys(layer, str(config_file))
    named = _legacy_values(environ, faults)
    named |= {k: (name, environ[name]) for k in settings() if environ.get(name := variable(k))}
    values |= _resolve_paths(
        _parse_variables({key: value for key, (_, value) in named.items()}), here
    )
    origins |= {key: f"environment {name}" for key, (name, _) in named.items()}
    given = {key: value for key, value in (flags or {}).items() if value is not None}
    values |= _resolve_paths(given, here)
    origins |= dict.fromkeys(given, "flag")
    data = Path(str(values.setdefault("data", default_data(environ))))
    values.setdefault("store", f"sqlite://{_url_path(data / 'fleet.db')}")
    values.setdefault("blobs", f"file://{_url_path(data / 'blobs')}")
    return Loaded(_validate(values, origins, faults), origins)


def unknown_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return variables that look like settings but are unknown, each with the closest known one."""
    known = [*(variable(key) for key in settings()), *LEGACY]
    unknown = (name for name in environ if name.startswith(PREFIX) and name not in known)
    return {name: _nearest(name, known) for name in unknown}


def warnings(config: Config) -> list[str]:
    """Return warnings about settings that are allowed but risky."""
    return [*_lease_warnings(config.lease), *_network_warnings(config.server)]


def _network_warnings(server: ServerSettings) -> list[str]:
    encrypted = (server.public_url or "").startswith("https://")
    if server.host in LOOPBACK or encrypted:
        return []
    plain = (
        f"server.host is {server.host} and nothing says that TLS is in front: tokens and sessions"
        " would cross the network in plain text; put a reverse proxy with TLS in front and set"
        " server.public-url to its https URL (docs/howto/tls.md)"
    )
    return [plain]


def _lease_warnings(lease: LeaseSettings) -> list[str]:
    spare = lease.ttl - lease.renew_every
    if spare >= OUTAGE_NOTICED_S:
        return []
    short = (
        f"lease.ttl is {lease.ttl:g} s and lease.renew-every {lease.renew_every:g} s: if the"
        f" coordinator is down for {spare:g} to {OUTAGE_NOTICED_S:g} s, factories may lose their"
        f" running jobs; raise lease.ttl by {OUTAGE_NOTICED_S - spare:g} s"
    )
    return [short]


def mask(key: str, value: object) -> object:
    """Return a value without tokens and passwords."""
    if key in SECRETS and value:
        return "***"
    if isinstance(value, Mapping):
        # A user may have written the token itself instead of the name of its variable.
        return {k: "***" if k == "token" else mask(key, v) for k, v in value.items()}
    if isinstance(value, str):
        return _PASSWORD.sub(r"\1:***@", value)
    return value


def _read(file: Path) -> dict[str, object]:
    import tomllib

    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        fault = Fault("", f"cannot be read: {error.strerror}; choose another file with --config")
        raise Invalid(f"the configuration {file}", [fault]) from None
    except ValueError as error:
        raise Invalid(f"the configuration {file}", [Fault("", str(error))]) from None


def _faults_of_checkout(file: Path, layer: Layer) -> list[Fault]:
    """Return a fault for each setting that a file which nobody named may not have."""
    checkout = checkout_of(file)
    if checkout is None:
        return []
    why = (
        f"{file} is in the checkout {checkout}, where the repo or a job may have written it; if it"
        f" is yours, name it: --config {file}"
    )
    return [Fault(key, why) for key in layer if not key.startswith(FROM_A_CHECKOUT)]


def checkout_of(file: Path) -> Path | None:
    """Return the git checkout that contains a file; None if there is none."""
    return next((each for each in file.absolute().parents if (each / ".git").exists()), None)


def _flatten(tree: Mapping[str, object], faults: list[Fault], under: str = "") -> Layer:
    types = settings()
    flat: Layer = {}
    for name, value in tree.items():
        key = f"{under}{name}"
        if key in types:
            flat[key] = value
        elif isinstance(value, Mapping) and any(each.startswith(f"{key}.") for each in types):
            flat |= _flatten(value, faults, f"{key}.")
        else:
            faults.append(Fault(key, f"unknown setting; did you mean {_nearest(key, types)}?"))
    return flat


def _nearest(key: str, known: Iterable[str]) -> str:
    import difflib

    return difflib.get_close_matches(key, list(known), n=1, cutoff=0.0)[0]


def _legacy_values(environ: Mapping[str, str], faults: list[Fault]) -> dict[str, tuple[str, str]]:
    """Return name and value of legacy variables by the setting they now belong to."""
    values: dict[str, tuple[str, str]] = {}
    for name, legacy in LEGACY.items():
        value = environ.get(name)
        if not value:
            continue
        if isinstance(legacy, RenamedVariable):
            values[legacy.key] = name, value
            continue
        try:
            on = msgspec.convert(value, bool, strict=False)
        except msgspec.ValidationError:
            faults.append(Fault(name, f"found {value!r}; expected 1 (on) or 0 (off)"))
            continue
        if not isinstance(legacy, AlwaysOnVariable):
            new_value = legacy.on if on else legacy.off
            if new_value is not None:
                values[legacy.key] = name, new_value
        elif not on:
            faults.append(Fault(name, f"cannot be disabled: {legacy.instead}"))
    return values


def _parse_variables(values: Mapping[str, str]) -> Layer:
    """Parse variables: `claude=4,codex=2` for a table, `a,b` for a list."""
    kinds = settings()
    return {key: _parse_value(kinds[key], value) for key, value in values.items()}


def _parse_value(kind: object, value: str) -> object:
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


def _resolve_paths(layer: Layer, folder: Path) -> Layer:
    """Return the layer with paths made absolute, relative to `folder`."""
    return layer | {key: _resolve_path(layer[key], folder) for key in PATHS if key in layer}


def _resolve_path(written: object, folder: Path) -> object:
    if isinstance(written, list):
        return [_resolve_path(each, folder) for each in written]
    return str(folder / Path(str(written)).expanduser())


def _validate(values: Layer, origins: Mapping[str, str], faults: list[Fault]) -> Config:
    tree: dict[str, object] = {}
    kinds = settings()
    for key, value in values.items():
        try:
            checked = msgspec.convert(value, kinds[key], strict=False, dec_hook=_decode_path)
        except msgspec.ValidationError as error:
            origin = origins.get(key, "default")
            faults.append(Fault(key, f"{error} (found {mask(key, value)!r}; from {origin})"))
        else:
            _set_nested(tree, key, checked)
    if faults:
        raise Invalid("the configuration", faults)
    try:
        return msgspec.convert(tree, Config, dec_hook=_decode_path)
    except msgspec.ValidationError as error:
        sentence = str(error).partition(" - at ")[0]
        raise Invalid("the configuration", [Fault("", sentence)]) from None


def _set_nested(tree: dict[str, object], key: str, value: object) -> None:
    section, _, name = key.rpartition(".")
    place = tree.setdefault(section, {}) if section else tree
    assert isinstance(place, dict)
    place[name] = value


def _url_path(path: Path) -> str:
    plain = quote(path.as_posix(), safe="/:")
    return plain if plain.startswith("/") else f"/{plain}"


def _decode_path(kind: type, value: object) -> object:
    # msgspec expects NotImplementedError for types that this hook does not decode.
    if issubclass(kind, Path) and isinstance(value, str | Path):
        return Path(value)
    raise NotImplementedError

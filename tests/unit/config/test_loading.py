"""Settings: layers, the source of each value, and rejected values."""

from pathlib import Path

import msgspec
import pytest

from gigafactory.config.data_dir import find_file
from gigafactory.config.env_vars import variable
from gigafactory.config.loading import (
    load,
    mask,
    settings,
    unknown_variables,
    warnings,
)
from gigafactory.config.settings import OUTAGE_NOTICED_S, Config
from gigafactory.coordinator.duties.reaper import GAP_MIN
from gigafactory.domain.errors import Invalid

HOME = {"HOME": "/h"}


def write(folder: Path, text: str) -> Path:
    file = folder / "aq.toml"
    file.write_text(text)
    return file


def test_defaults_apply_without_any_settings(tmp_path: Path) -> None:
    loaded = load({"HOME": "/h", "XDG_DATA_HOME": "/h/data"}, cwd=tmp_path)
    assert loaded.config.server.host == "127.0.0.1"
    assert loaded.config.server.port == 8790
    assert loaded.origin("server.port") == "default"


@pytest.mark.skipif("sys.platform != 'linux'", reason="each system has its own place")
def test_data_lives_in_the_user_data_directory(tmp_path: Path) -> None:
    assert load(HOME, cwd=tmp_path).config.data == Path("/h/.local/share/gigafactory")
    chosen = load({**HOME, "XDG_DATA_HOME": "/x"}, cwd=tmp_path).config
    assert chosen.data == Path("/x/gigafactory")
    assert chosen.store == "sqlite:///x/gigafactory/fleet.db"
    assert chosen.blobs == "file:///x/gigafactory/blobs"


def test_store_url_follows_the_data_folder_and_is_escaped(tmp_path: Path) -> None:
    config = load({"AQ_DATA": "/a b/100%"}, cwd=tmp_path).config
    assert config.store == "sqlite:///a%20b/100%25/fleet.db"


def test_flags_override_variables_over_the_file_over_defaults(tmp_path: Path) -> None:
    file = write(tmp_path, "[server]\nport = 1\nhost = 'file'\n[lease]\nttl = 60\n")
    environ = {**HOME, "AQ_PORT": "2", "AQ_HOST": "variable"}
    loaded = load(environ, cwd=tmp_path, flags={"server.port": 3, "server.host": None})
    assert loaded.config.server.port == 3
    assert loaded.config.server.host == "variable"
    assert loaded.config.lease.ttl == 60
    assert [loaded.origin(key) for key in ("server.port", "server.host", "lease.ttl", "store")] == [
        "flag",
        "environment AQ_HOST",
        str(file),
        "default",
    ]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[factory]\nsandbox = 'none'\n", "factory.sandbox"),
        ("[factory]\nyolo-without-sandbox = true\n", "factory.yolo-without-sandbox"),
        ("[factory]\nroots = ['/']\n", "factory.roots"),
        ("[client]\nurl = 'http://192.0.2.1'\n", "client.url"),
        ("data = 'x'\n", "data"),
        ("store = 'memory:'\n", "store"),
    ],
)
def test_a_file_found_in_a_checkout_weakens_nothing(tmp_path: Path, text: str, key: str) -> None:
    (tmp_path / ".git").mkdir()
    below = tmp_path / "src"
    below.mkdir()
    file = write(tmp_path, "[log]\nlevel = 'debug'\n")
    assert load(HOME, cwd=below).config.log.level == "debug"
    write(tmp_path, text)
    with pytest.raises(Invalid) as refused:
        load(HOME, cwd=below)
    assert [fault.field for fault in refused.value.faults] == [key]
    assert f"name it: --config {file}" in refused.value.faults[0].message


def test_a_named_file_in_a_checkout_may_set_everything(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    file = write(tmp_path, "[factory]\nsandbox = 'none'\n")
    assert load(HOME, cwd=tmp_path, file=file).config.factory.sandbox == "none"


def test_config_file_is_found_in_a_parent_folder(tmp_path: Path) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    file = write(tmp_path, "store = 'memory:'\n")
    assert find_file(str(below)) == str(file)
    assert load(HOME, cwd=below).config.store == "memory:"


def test_relative_path_is_resolved_where_it_is_written(tmp_path: Path) -> None:
    write(tmp_path, "data = 'data'\n")
    below = tmp_path / "below"
    below.mkdir()
    assert load(HOME, cwd=below).config.data == tmp_path / "data"
    assert load({**HOME, "AQ_DATA": "d"}, cwd=below).config.data == below / "d"


def test_unknown_keys_are_rejected_with_the_nearest_setting(tmp_path: Path) -> None:
    write(tmp_path, "stor = 'memory:'\n[server]\nprot = 1\n[lese]\nttl = 1\n")
    with pytest.raises(Invalid) as refused:
        load(HOME, cwd=tmp_path)
    assert [str(fault) for fault in refused.value.faults] == [
        "stor: unknown setting; did you mean store?",
        "server.prot: unknown setting; did you mean server.port?",
        "lese: unknown setting; did you mean lease.ttl?",
    ]


def test_invalid_values_are_reported_with_their_origin(tmp_path: Path) -> None:
    write(tmp_path, "[log]\nlevel = 'loud'\n")
    with pytest.raises(Invalid) as refused:
        load({**HOME, "AQ_PORT": "99999", "AQ_FLEET_SEATS": "claude=x"}, cwd=tmp_path)
    result = {fault.field: fault.message for fault in refused.value.faults}
    assert result.keys() == {"log.level", "server.port", "fleet.seats"}
    assert "from environment AQ_PORT" in result["server.port"]
    assert "aq.toml" in result["log.level"]


def test_invalid_secret_is_not_repeated_in_the_error(tmp_path: Path) -> None:
    write(tmp_path, "[client]\ntoken = ['gfo_secret']\n")
    with pytest.raises(Invalid) as refused:
        load(HOME, cwd=tmp_path)
    assert "gfo_secret" not in str(refused.value)


@pytest.mark.parametrize("text", ["[server", "server = \xff", "port = 1 2"])
def test_malformed_toml_file_is_rejected_by_name(tmp_path: Path, text: str) -> None:
    file = tmp_path / "aq.toml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(Invalid, match=r"aq\.toml"):
        load(HOME, file=file)


def test_missing_config_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="cannot be read"):
        load(HOME, file=tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("ttl", "renew", "wise"), [("90", "20", True), ("20", "5", True), ("20", "9", False)]
)
def test_lease_too_short_for_an_unnoticed_outage_gets_a_warning(
    tmp_path: Path, ttl: str, renew: str, *, wise: bool
) -> None:
    result = {**HOME, "AQ_LEASE_TTL": ttl, "AQ_FLEET_LEASE_RENEW_SEC": renew}
    found = warnings(load(result, cwd=tmp_path).config)
    assert (found == []) is wise
    assert wise or "down for 11 to 15 s" in found[0]


def test_outage_threshold_of_settings_and_reaper_is_equal() -> None:
    assert GAP_MIN.total_seconds() == OUTAGE_NOTICED_S


@pytest.mark.parametrize("renew", ["45", "45.1", "90"])
def test_renewals_at_half_of_the_ttl_or_more_are_rejected(tmp_path: Path, renew: str) -> None:
    with pytest.raises(Invalid, match=r"less than half of lease\.ttl"):
        load({**HOME, "AQ_FLEET_LEASE_RENEW_SEC": renew}, cwd=tmp_path)


def test_heartbeats_at_half_of_the_offline_threshold_or_more_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="offline after 90 s"):
        load({**HOME, "AQ_FLEET_HEARTBEAT_EVERY": "45"}, cwd=tmp_path)
    assert (
        load(
            {**HOME, "AQ_FLEET_HEARTBEAT_EVERY": "44.9"}, cwd=tmp_path
        ).config.fleet.heartbeat_every
        < 45
    )


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf"])
def test_lease_ttl_must_be_positive_and_finite(tmp_path: Path, seconds: str) -> None:
    with pytest.raises(Invalid):
        load({**HOME, "AQ_LEASE_TTL": seconds}, cwd=tmp_path)


def test_tables_and_lists_in_variables_are_comma_separated(tmp_path: Path) -> None:
    environ = {**HOME, "AQ_FLEET_SEATS": "claude=4, codex=2", "AQ_SERVER_HOSTS": "a.test, b.test"}
    config = load(environ, cwd=tmp_path).config
    assert config.fleet.seats == {"claude": 4, "codex": 2}
    assert config.server.hosts == ("a.test", "b.test")


def test_old_variable_names_are_kept() -> None:
    assert variable("client.url") == "AQ_FLEET_API"
    assert variable("client.token") == "AQ_FLEET_TOKEN"
    assert variable("client.product") == "AQ_PRODUCT_ID"
    assert variable("lease.renew-every") == "AQ_FLEET_LEASE_RENEW_SEC"
    assert [variable(key) for key in ("server.host", "server.port", "data", "store", "blobs")] == [
        "AQ_HOST",
        "AQ_PORT",
        "AQ_DATA",
        "AQ_STORE",
        "AQ_BLOBS",
    ]


@pytest.mark.parametrize(
    ("name", "written", "key", "meant"),
    [
        ("AQ_FLEET", "1", "folder.fleet", True),
        ("AQ_FLEET", "0", "folder.fleet", False),
        ("AQ_FLEET_REPO_BASE", "/srv/code", "factory.repos", "/srv/code"),
        ("AQ_FLEET_GATE", "1", "factory.source", "gate"),
        ("AQ_FLEET_GATE", "0", "factory.source", "poll"),
        ("AQ_FLEET_ROUTE", "1", "dispatch.mode", "push"),
        ("AQ_FLEET_ROUTE", "0", "dispatch.mode", "pull"),
        ("AQ_FLEET_SHADOW", "1", "dispatch.mode", "shadow"),
        ("AQ_FLEET_DASH", "1", "client.dash", "fleet"),
        ("AQ_FLEET_DASH", "0", "client.dash", "folder"),
        ("FLEET_PREEMPTION", "true", "fleet.preempt-for", ("critical",)),
        ("FLEET_PREEMPTION", "false", "fleet.preempt-for", ()),
    ],
)
def test_legacy_variable_sets_its_setting(
    tmp_path: Path, name: str, written: str, key: str, meant: object
) -> None:
    loaded = load({**HOME, name: written}, cwd=tmp_path)
    assert loaded.masked_values()[key] == meant
    assert loaded.origin(key) == f"environment {name}"
    assert unknown_variables({name: written}) == {}


def test_own_variable_of_a_setting_overrides_a_legacy_one(tmp_path: Path) -> None:
    file = write(tmp_path, '[factory]\nsource = "stream"\n')
    old = {**HOME, "AQ_FLEET_GATE": "1"}
    assert load(old, file=file).config.factory.source == "gate", "more than the file"
    assert load({**old, "AQ_FACTORY_SOURCE": "poll"}, file=file).config.factory.source == "poll"


def test_legacy_shadow_variable_sets_the_dispatch_mode_only_when_on(
    tmp_path: Path,
) -> None:
    old = {**HOME, "AQ_FLEET_ROUTE": "0", "AQ_FLEET_SHADOW": "0"}
    assert load(old, cwd=tmp_path).config.dispatch.mode == "pull"
    assert load({**old, "AQ_FLEET_SHADOW": "1"}, cwd=tmp_path).config.dispatch.mode == "shadow"


@pytest.mark.parametrize(
    "name", ["AQ_FLEET", "AQ_FLEET_GATE", "AQ_FLEET_DASH", "FLEET_PREEMPTION", "FLEET_BUDGETS"]
)
def test_invalid_value_of_a_legacy_switch_is_rejected(tmp_path: Path, name: str) -> None:
    with pytest.raises(Invalid, match=rf"(?s){name}.*maybe|maybe.*{name}"):
        load({**HOME, name: "maybe"}, cwd=tmp_path)


def test_budgets_cannot_be_turned_off_and_the_error_says_what_to_do(
    tmp_path: Path,
) -> None:
    load({**HOME, "FLEET_BUDGETS": "1"}, cwd=tmp_path)
    with pytest.raises(Invalid, match=r"FLEET_BUDGETS: cannot be disabled: .*aq budget set none"):
        load({**HOME, "FLEET_BUDGETS": "0"}, cwd=tmp_path)


def test_every_setting_has_its_own_variable() -> None:
    names = [variable(key) for key in settings()]
    assert len(set(names)) == len(names)


def test_misspelled_variable_is_reported_with_the_nearest_setting() -> None:
    assert unknown_variables({"AQ_PROT": "1", "AQ_PORT": "1", "PATH": ""}) == {"AQ_PROT": "AQ_PORT"}


def test_shown_settings_contain_no_secrets(tmp_path: Path) -> None:
    environ = {**HOME, "AQ_FLEET_TOKEN": "gfo_x", "AQ_STORE": "postgresql://ann:pw@db/fleet"}
    shown = load(environ, cwd=tmp_path).masked_values()
    assert shown["client.token"] == "***"
    assert shown["store"] == "postgresql://ann:***@db/fleet"
    assert shown.keys() == settings().keys()


def test_forge_is_keyed_by_host_and_a_token_in_the_file_is_not_repeated(
    tmp_path: Path,
) -> None:
    right = write(tmp_path, '[factory.forges."git.acme.com"]\ntoken-env = "ACME_TOKEN"\n')
    assert load(HOME, file=right).config.factory.forges["git.acme.com"].token_env == "ACME_TOKEN"
    wrong = write(tmp_path, '[factory.forges."git.acme.com"]\ntoken = "my-own-token"\n')
    with pytest.raises(Invalid, match=r"factory\.forges: .*token") as refused:
        load(HOME, file=wrong)
    assert "my-own-token" not in str(refused.value)


def test_address_without_a_password_is_shown_whole() -> None:
    assert mask("store", "sqlite:///a/b@c:d") == "sqlite:///a/b@c:d"


def test_settings_cannot_be_changed(tmp_path: Path) -> None:
    config: Config = load(HOME, cwd=tmp_path).config
    with pytest.raises(AttributeError):
        config.server.port = 1  # type: ignore[misc]
    assert msgspec.structs.fields(Config)


def test_relative_folder_list_is_resolved_where_it_is_written(tmp_path: Path) -> None:
    write(tmp_path, '[factory]\nroots = ["desk", "/srv"]\n')
    assert load(HOME, cwd=tmp_path).config.factory.roots == (tmp_path / "desk", Path("/srv"))


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ('provider = "command"', "the provider of the shape is `command`"),
        ('command = ["./vms"]', "the provider of the shape is `command`"),
        ("minimum = 5", "minimum 5 exceeds the maximum 4 of the shape"),
        ("slots = 0", "Expected `int` >= 1"),
    ],
)
def test_impossible_shape_is_rejected(tmp_path: Path, shape: str, said: str) -> None:
    file = write(tmp_path, f"[autoscale.shapes.linux]\n{shape}\n")
    with pytest.raises(Invalid) as caught:
        load(HOME, file=file)
    (fault,) = caught.value.faults
    assert fault.field == "autoscale.shapes"
    assert said in fault.message


def test_shapes_keep_their_written_order(tmp_path: Path) -> None:
    text = "[autoscale.shapes.small]\nslots = 2\n[autoscale.shapes.large]\nslots = 8\n"
    config = load(HOME, file=write(tmp_path, text)).config
    assert list(config.autoscale.shapes) == ["small", "large"]

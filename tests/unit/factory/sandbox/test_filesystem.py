"""The file system in a sandbox: listed paths are visible, all others are not."""

from pathlib import Path

import msgspec

from gigafactory.factory.process.spawn import Program
from gigafactory.factory.sandbox import filesystem as view
from gigafactory.factory.sandbox.filesystem import Mount, access_of

MARK = "0123456789abcdef0123456789abcdef"


def a_program(cwd: Path, *argv: str) -> Program:
    return Program(
        argv=argv or ("/bin/sh", "-c", "true"),
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin"},
        mark=MARK,
    )


def test_a_virtual_environment_is_shown_whole(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "pyvenv.cfg").touch()
    assert view.package_folder(tmp_path / "bin" / "aider") == tmp_path
    assert view.package_folder(Path("/opt/x/bin/tool")) == Path("/opt/x/bin")


def test_toolchains_that_live_in_a_home_are_shown_and_nothing_beside_them(tmp_path: Path) -> None:
    for name in (".pyenv", ".nvm", ".ssh", ".local/share/uv/python", ".local/share/uv/credentials"):
        (tmp_path / name).mkdir(parents=True)
    shown = {".pyenv", ".nvm", ".local/share/uv/python"}
    assert set(view.toolchain_folders(tmp_path)) == {tmp_path / name for name in shown}


def test_settings_of_toolchains_that_may_have_a_password_are_hidden(tmp_path: Path) -> None:
    npm = tmp_path / ".nvm" / "versions" / "node" / "v22.1.0" / "etc" / "npmrc"
    npm.parent.mkdir(parents=True)
    npm.write_text("//registry.example/:_authToken=x\n")
    assert view.toolchain_credentials(tmp_path) == (npm,)
    mounts = view.resolve_mounts(writable=(), readable=[tmp_path / ".nvm"], hidden=[npm])
    assert access_of(npm, mounts) == "none"
    assert access_of(npm.parent / "other", mounts) == "read"


def test_what_is_not_listed_is_not_there(tmp_path: Path) -> None:
    mounts = view.build_mounts(a_program(tmp_path), writable=[tmp_path])
    for place in (
        "/srv/x",
        "/data",
        "/work",
        "/var/lib/postgresql",
        "/mnt/x",
        "/boot",
        "/",
        "/sys",
    ):
        assert access_of(Path(place), mounts) == "none", place
    for place in ("/usr/bin/git", "/etc/passwd"):
        assert access_of(Path(place), mounts) == "read", place
    assert access_of(Path("/etc/shadow"), mounts) == "none"
    assert access_of(tmp_path / "x", mounts) == "write"


def test_what_others_may_not_read_in_etc_is_hidden(tmp_path: Path) -> None:
    for name, mode in {"open": 0o644, "token.env": 0o640, "deep/key": 0o600}.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.touch()
        file.chmod(mode)
    (tmp_path / "closed").mkdir(mode=0o750)
    found = set(view.find_private(tmp_path))
    assert found == {tmp_path / name for name in ("token.env", "deep/key", "closed")}


def test_links_on_the_way_to_a_shown_folder_are_made_again(tmp_path: Path) -> None:
    real = tmp_path / "disk" / "work"
    real.mkdir(parents=True)
    (tmp_path / "short").symlink_to("disk")
    mounts = view.resolve_mounts(writable=[tmp_path / "short" / "work"], readable=())
    assert access_of(real, mounts) == "write"
    assert Mount(tmp_path / "short", "link", is_folder=False, target="disk") in mounts


def test_a_home_is_hidden_wherever_it_is_unless_it_contains_the_system() -> None:
    assert Path("/opt/service") in view.hidden_homes(Path("/opt/service"))
    assert Path("/") not in view.hidden_homes(Path("/"))


def test_certificates_that_a_program_is_told_to_use_are_shown(tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    authority.touch()
    program = a_program(Path("/"))
    env = {**program.env, "SSL_CERT_FILE": str(authority)}
    program = msgspec.structs.replace(program, env=env)
    mounts = view.build_mounts(program, writable=())
    assert access_of(authority, mounts) == "read"


def test_a_home_folder_is_not_exposed_as_a_whole_for_a_program_in_it() -> None:
    assert view.is_home(Path.home())
    assert view.is_home(Path("/home/me"))
    assert not view.is_home(Path("/home/me/bin"))

"""`aq shadow` as a process against a real fleet."""

from pathlib import Path
from typing import Any

from tests.services.aq import Shell, serving


def test_shadow_commands_show_and_set_the_dispatch_mode(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    with serving(shell):
        assert shell.aq("shadow").err == "no product yet; the first job creates one\n"
        turned = shell.aq("shadow", "mode", "notes", "shadow")
        assert turned.code == 0
        assert "shadow" in turned.out
        shown = shell.aq("shadow")
        assert shown.out.splitlines()[0].startswith("PRODUCT")
        assert "switching to push needs 200 decisions at 99% agreement" in shown.err
        refused = shell.aq("shadow", "mode", "notes", "push")
        assert refused.code != 0
        assert "0 comparisons" in refused.err
        forced: Any = shell.aq("shadow", "mode", "notes", "push", "--force", "--json").json()
        assert forced["mode"] == "push"
        assert shell.aq("shadow", "mode", "notes", "sideways").code == 2
        assert "shadow" in shell.aq("--help").out


def test_the_default_dispatch_mode_of_products_is_a_setting(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    (tmp_path / "aq.toml").write_text('[dispatch]\nmode = "pull"\n')
    with serving(shell):
        shell.aq("product", "set", "notes", "--share", "2")
        data: Any = shell.aq("shadow", "--json").json()
        assert [each["mode"] for each in data["products"]] == ["pull"]

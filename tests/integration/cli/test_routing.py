"""`aq routing` as a process against a real fleet."""

from pathlib import Path
from typing import Any

from tests.services.aq import Shell, serving


def test_routing_commands_show_evaluate_and_set_the_mode(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    with serving(shell):
        nothing = shell.aq("routing")
        assert nothing.err == "nothing is clearly better than the current mix (n = 0)\n"
        judged = shell.aq("routing", "eval")
        assert judged.out.startswith("no job has explored")
        turned = shell.aq("routing", "mode", "notes", "ab", "--explore", "0.1")
        assert turned.code == 0
        assert "ab" in turned.out
        assert "10%" in turned.out
        shown: Any = shell.aq("routing", "--json").json()
        assert [each["mode"] for each in shown["rollouts"]] == ["ab"]
        data: Any = shell.aq("routing", "eval", "--json").json()
        assert data["concludes"] is False
        back: Any = shell.aq("routing", "mode", "notes", "off", "--json").json()
        assert (back["mode"], back["share"]) == ("off", 0.0)
        assert "notes" in shell.aq("routing").out
        assert shell.aq("routing", "mode", "notes", "wild").code == 2
        assert "routing" in shell.aq("--help").out

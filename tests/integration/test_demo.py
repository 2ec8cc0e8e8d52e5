"""`aq demo`: everything that it promises happens, and nothing of it is left."""

import re
import signal
from pathlib import Path

from gigafactory.demo.script import plays
from tests.services.aq import Shell


def test_a_seed_plays_the_same_again() -> None:
    assert plays(7, "/repo") == plays(7, "/repo")
    assert plays(7, "/repo") != plays(8, "/repo")
    assert len(plays(7, "/repo")) >= 11


def test_the_demo_plays_to_its_end_and_leaves_nothing(tmp_path: Path) -> None:
    shell = Shell(tmp_path, {"TMPDIR": str(tmp_path)})
    with shell.start("demo", "--once", "--seed", "7", "--port", "0") as running:
        out, err = running.communicate(timeout=110)
    assert running.returncode == 0, err
    assert re.search(r"open +http://127\.0\.0\.1:\d+/login\?code=", out)
    assert list(tmp_path.glob("aq-demo-*")) == []


def test_whoever_stops_it_finds_nothing_either(tmp_path: Path) -> None:
    shell = Shell(tmp_path, {"TMPDIR": str(tmp_path)})
    with shell.start("demo", "--port", "0") as running:
        assert running.stdout is not None
        for line in iter(running.stdout.readline, ""):
            if "Ctrl-C ends it" in line:
                break
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 0
    assert list(tmp_path.glob("aq-demo-*")) == []

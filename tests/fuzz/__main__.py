"""Fuzz for a given time, with a new seed per round: `python -m tests.fuzz --seconds 300`."""

import argparse
import random
import subprocess
import sys
import time


def main() -> int:
    """Run rounds until the time is over or one fails; print how to repeat the failed one."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, help="run one round with this seed")
    given = parser.parse_args()
    ends = time.monotonic() + given.seconds
    while True:
        seed = random.randrange(2**32) if given.seed is None else given.seed
        sys.stderr.write(f"seed {seed}\n")
        command = [sys.executable, "-m", "pytest", "-q", "-x", "tests/fuzz"]
        done = subprocess.run([*command, f"--hypothesis-seed={seed}", "-n", "auto"], check=False)
        if done.returncode != 0:
            sys.stderr.write(f"repeat it with `python -m tests.fuzz --seed {seed}`\n")
            return done.returncode
        if given.seed is not None or time.monotonic() >= ends:
            return 0


if __name__ == "__main__":
    sys.exit(main())

"""`emulate`, a stateful GitHub emulator on loopback: one for a whole test run."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.services.node_packages import installed, running
from tests.services.shared import keep

# Later versions of this npm package are a different program.
VERSION = "0.12.2"
OWNER = "me"
TOKEN = "secret-of-the-emulated-me"
STRANGER = "secret-of-somebody-else"

_SEED = {
    "tokens": {
        TOKEN: {"login": OWNER, "scopes": ["repo"]},
        STRANGER: {"login": "stranger", "scopes": ["repo"]},
    },
    "github": {"users": [{"login": OWNER}, {"login": "stranger"}]},
}


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Run the shared GitHub emulator of the test run and yield the address of its API."""
    module = installed("emulate", VERSION) / "dist" / "api.js"
    program = (
        f"import {{ createEmulator }} from {json.dumps(module.as_uri())};\n"
        f"const seed = {json.dumps(_SEED)};\n"
        "const github = await createEmulator({ service: 'github', port: 0, seed });\n"
        "console.log(`answers at ${github.url}`);\n"
    )
    ready = re.compile(r"answers at http://localhost:(\d+)\n")
    with running(("--input-type=module", "--eval", program), folder, ready) as port:
        yield f"http://127.0.0.1:{port}"


if __name__ == "__main__":
    keep("emulate", serve)

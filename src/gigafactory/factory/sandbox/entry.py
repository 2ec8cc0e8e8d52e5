"""Runs first in a sandbox without network access: opens the way out, then becomes the program.

It listens on the sandbox's own loopback interface, passes these sockets to the factory outside, and
executes the real program. Its source is given to an interpreter, so it cannot import anything of
ours.
"""

import os
import signal
import socket
import sys

CANNOT_RUN = 126
NOT_FOUND = 127


def main(arguments: list[str]) -> None:
    """Take the descriptor of a socket to the factory, comma-separated ports, and a command."""
    gate, ports, command = int(arguments[0]), arguments[1].split(","), arguments[2:]
    with socket.socket(fileno=gate) as outside:
        opened = [socket.create_server(("127.0.0.1", int(port))) for port in ports]
        socket.send_fds(outside, [b"."], [each.fileno() for each in opened])
    # The interpreter ignores these signals, and the executed program would inherit that.
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)  # noqa: S606 - exactly what was asked for
    except OSError as error:
        sys.stderr.write(f"cannot start {command[0]!r}: {error.strerror}\n")
        sys.exit(NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_RUN)


if __name__ == "__main__":
    main(sys.argv[1:])

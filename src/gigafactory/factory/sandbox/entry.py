"""What runs first in a sandbox without a network: it opens the only ways out, and steps aside.

It listens on the sandbox's own loopback, hands these sockets to the factory outside, and becomes
the program that was meant. Its text is given to an interpreter: it can import nothing of ours.
"""

import os
import signal
import socket
import sys

CANNOT_RUN = 126
NOT_FOUND = 127


def main(arguments: list[str]) -> None:
    """Take the number of a socket to the outside, ports with commas between, and a command."""
    gate, ports, command = int(arguments[0]), arguments[1].split(","), arguments[2:]
    with socket.socket(fileno=gate) as outside:
        opened = [socket.create_server(("127.0.0.1", int(port))) for port in ports]
        socket.send_fds(outside, [b"."], [each.fileno() for each in opened])
    # The interpreter ignores these, and whatever it becomes would do so too.
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)  # noqa: S606 - exactly what was asked for
    except OSError as error:
        sys.stderr.write(f"cannot start {command[0]!r}: {error.strerror}\n")
        sys.exit(NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_RUN)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Blocks of ports: each run has one to itself."""

import socket

from gigafactory.factory.run.ports import BLOCK, FIRST, Ports


def test_two_runs_have_blocks_apart() -> None:
    ports = Ports()
    one, other = ports.take(), ports.take()
    assert one is not None
    assert other is not None
    assert abs(one - other) >= BLOCK


def test_a_block_in_which_something_listens_is_passed_over() -> None:
    base = Ports().take()
    assert base is not None
    begin = (base - FIRST) // BLOCK
    with socket.create_server(("127.0.0.1", base + 3)):
        assert Ports(begin).take() != base
    ports = Ports(begin)
    assert ports.take() == base
    assert ports.take() != base
    ports.give_back(base)
    assert ports.take() == base


def test_without_a_block_nobody_else_loses_theirs() -> None:
    ports = Ports()
    base = ports.take()
    assert base is not None
    ports.give_back(None)
    assert Ports((base - FIRST) // BLOCK).take() == base, "it is free to others"
    assert ports.take() != base, "and still its own here"

"""Blocks of ports: each run has its own."""

import socket

from gigafactory.factory.run.ports import BLOCK, FIRST, PortBlocks


def test_two_runs_get_separate_port_blocks() -> None:
    ports = PortBlocks()
    one, other = ports.reserve(), ports.reserve()
    assert one is not None
    assert other is not None
    assert abs(one - other) >= BLOCK


def test_port_block_in_use_is_skipped() -> None:
    base = PortBlocks().reserve()
    assert base is not None
    begin = (base - FIRST) // BLOCK
    with socket.create_server(("127.0.0.1", base + 3)):
        assert PortBlocks(begin).reserve() != base
    ports = PortBlocks(begin)
    assert ports.reserve() == base
    assert ports.reserve() != base
    ports.release(base)
    assert ports.reserve() == base


def test_releasing_no_block_frees_no_other_block() -> None:
    ports = PortBlocks()
    base = ports.reserve()
    assert base is not None
    ports.release(None)
    assert PortBlocks((base - FIRST) // BLOCK).reserve() == base, "it is free to others"
    assert ports.reserve() != base, "and still its own here"

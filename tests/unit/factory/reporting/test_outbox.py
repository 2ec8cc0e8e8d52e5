"""The outbox: reports are stored before they are sent, in order, across restarts."""

from pathlib import Path

from gigafactory.factory.reporting.outbox import Outbox


def test_reports_are_pending_in_the_order_they_were_put(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox")
    for number in range(12):
        outbox.put("job-1", 1, {"note": str(number)})
    letters = [outbox.read(place) for place in outbox.pending()]
    assert [letter.fields["note"] for letter in letters] == [str(n) for n in range(12)]
    assert len({letter.key for letter in letters}) == 12


def test_pending_reports_survive_a_restart_and_stay_in_order(tmp_path: Path) -> None:
    Outbox(tmp_path).put("job-1", 1, {"stage": "building"})
    again = Outbox(tmp_path)
    again.put("job-1", 1, {"stage": "testing"}, last=True)
    assert [again.read(p).fields["stage"] for p in again.pending()] == ["building", "testing"]
    assert [again.read(p).last for p in again.pending()] == [False, True]


def test_a_report_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    stored = b'{"jobId":"job-1","epoch":2,"told":{"stage":"building"},"key":"k","last":true}'
    (tmp_path / "000000000001.json").write_bytes(stored)
    outbox = Outbox(tmp_path)
    (letter,) = (outbox.read(place) for place in outbox.pending())
    assert (letter.job_id, letter.epoch, letter.key, letter.last) == ("job-1", 2, "k", True)
    assert letter.fields == {"stage": "building"}


def test_removed_and_half_written_reports_are_not_pending(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path)
    place = outbox.put("job-1", 1, {})
    (tmp_path / "000000000009.tmp").write_bytes(b'{"job')
    outbox.remove(place)
    outbox.remove(place)
    assert outbox.pending() == []
    assert Outbox(tmp_path).pending() == []


def test_report_that_cannot_be_written_to_disk_stays_pending_in_memory(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox")
    first = outbox.put("job-1", 1, {"note": "1"})
    outbox.read(first)
    first.unlink()
    (tmp_path / "outbox").rmdir()
    second = outbox.put("job-1", 1, {"note": "2"})
    assert [outbox.read(place).fields["note"] for place in outbox.pending()] == ["2"]
    outbox.quarantine(second, tmp_path / "aside")
    assert outbox.pending() == []
    assert b'"note":"2"' in (tmp_path / "aside" / f"report-{second.name}").read_bytes()
    outbox.remove(outbox.put("job-1", 1, {"note": "3"}))
    assert outbox.pending() == []

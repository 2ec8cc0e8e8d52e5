"""DAG layout: layers by dependency, no overlaps."""

from hypothesis import given
from hypothesis import strategies as st

from gigafactory.domain.job.job import Job
from gigafactory.web.presenters.dag_layout import BOX_HEIGHT, BOX_WIDTH, can_be_drawn, draw_dag
from tests.support.builders import a_job


def a_child(number: int, **fields: object) -> Job:
    return a_job(**({"id": f"j{number}", "parent_id": "root"} | fields))


def test_dependents_are_drawn_right_of_their_dependencies() -> None:
    first, second = a_child(1), a_child(2, deps=("j1",))
    drawn = {box.job.id: box for box in draw_dag([second, first]).boxes}
    assert drawn["j2"].x > drawn["j1"].x
    assert [arrow.kind for arrow in draw_dag([first, second]).arrows] == ["dep"]


def test_later_phase_is_drawn_right_of_earlier_ones() -> None:
    jobs = [a_child(1, phase=1), a_child(2, phase=1, deps=("j1",)), a_child(3, phase=3)]
    drawn = {box.job.id: box.x for box in draw_dag(jobs).boxes}
    assert drawn["j1"] < drawn["j2"] < drawn["j3"]


def test_children_are_connected_to_their_composite() -> None:
    inner = a_child(1, kind="composite")
    part = a_child(2, parent_id="j1")
    picture = draw_dag([inner, part])
    assert [arrow.kind for arrow in picture.arrows] == ["part"]


def test_no_jobs_make_an_empty_picture() -> None:
    assert draw_dag([]).boxes == []


@given(st.lists(st.tuples(st.integers(0, 3), st.sets(st.integers(0, 30))), max_size=31))
def test_boxes_do_not_overlap_and_are_inside(plan: list[tuple[int, set[int]]]) -> None:
    jobs = [
        a_child(n, phase=phase, deps=tuple(f"j{dep}" for dep in deps if dep < n))
        for n, (phase, deps) in enumerate(plan)
    ]
    picture = draw_dag(jobs)
    assert len({(box.x, box.y) for box in picture.boxes}) == len(jobs)
    for box in picture.boxes:
        assert box.x + BOX_WIDTH <= picture.width
        assert box.y + BOX_HEIGHT <= picture.height


def test_very_many_dependencies_are_not_drawn() -> None:
    few = [a_child(n, deps=(f"j{n - 1}",)) for n in range(1000)]
    many = [a_child(n, deps=tuple(f"j{dep}" for dep in range(n))) for n in range(100)]
    assert can_be_drawn(few)
    assert not can_be_drawn([*few, a_child(1000)])
    assert not can_be_drawn(many)

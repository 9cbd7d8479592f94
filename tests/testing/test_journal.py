"""Journals: what a killed writer knew."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ottla.testing.checker import History, Mark, Place
from ottla.testing.journal import LINE_BYTES, Journal, Line, add_to_history, progress_of, read_journal

NUMBERS = st.integers(0, 10**6 - 1)


@given(
    st.builds(Line, st.sampled_from("AKRT"), st.integers(0, 10**14 - 1), NUMBERS, NUMBERS, st.integers(0, 10**14 - 1))
)
def test_every_line_is_as_long_as_the_others(line: Line) -> None:
    """4096 is a multiple of 64, so no line straddles a page and a kill tears none."""
    assert len(line.encode()) == LINE_BYTES
    assert line.encode().endswith(b"\n")


def test_what_was_noted_is_read(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    assert read_journal(path) == []
    lines = [Line("A", 0, 3, 1, 0), Line("K", 0, 3, 1, 17)]
    Journal(path).note(lines)
    Journal(path).note([Line("R", 3, 1, 0, 0)])
    assert read_journal(path) == [*lines, Line("R", 3, 1, 0, 0)]


def test_a_torn_line_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    Journal(path).note([Line("A", 0, 3, 1, 0)])
    with path.open("ab") as file:
        file.write(b"K 12")
    assert read_journal(path) == [Line("A", 0, 3, 1, 0)]


def test_a_restarted_writer_goes_on_behind_its_journal() -> None:
    """What has no outcome is pending; a refused batch gives its sequence back."""
    lines = [
        Line("A", 0, 3, 0, 0),
        Line("K", 0, 3, 0, 1),
        Line("A", 3, 2, 1, 0),
        Line("R", 3, 2, 1, 0),
        Line("A", 5, 1, 0, 1),
        Line("A", 6, 4, 0, 2),
        Line("K", 5, 1, 0, 4),
    ]
    progress = progress_of(lines)
    assert progress.sequence == 10
    assert progress.batches == {0: 3, 1: 0}
    assert progress.pending == [Line("A", 6, 4, 0, 2)]


def test_a_journal_is_history() -> None:
    history = History()
    add_to_history(
        history, 7, [Line("A", 0, 2, 1, 0), Line("K", 0, 2, 1, 5), Line("A", 2, 1, 0, 0), Line("R", 2, 1, 0, 0)]
    )
    assert history.attempted == {Mark(7, 0), Mark(7, 1), Mark(7, 2)}
    assert history.acknowledged == {Mark(7, 0): Place(1, 5), Mark(7, 1): Place(1, 6)}
    assert history.refused == {Mark(7, 2)}

"""The checker finds every kind of anomaly when it is planted, and nothing in a sound log."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.testing.checker import History, Mark, Place, check, mark_of, marked

Log = dict[int, list[tuple[int, bytes | None]]]


def sound() -> tuple[History, Log]:
    """Two writers, two partitions, all outcomes: acknowledged, refused, unknown and there, unknown and not there."""
    history = History()
    log: Log = {0: [], 1: []}
    for sequence in range(20):
        for writer in (1, 2):
            mark = Mark(writer, sequence)
            history.attempted.add(mark)
            if sequence == 7:
                history.refused.add(mark)
                continue
            if sequence == 19 and writer == 2:
                continue
            partition = sequence % 2
            place = Place(partition, len(log[partition]) + 1)
            log[partition].append((place.number, marked(mark, 40)))
            if sequence != 19:
                history.acknowledged[mark] = place
    return history, log


def kinds(history: History, log: Log, seen: Log | None = None) -> set[str]:
    return {anomaly.kind for anomaly in check(history, log, seen=seen)}


def test_a_sound_log_has_no_anomaly() -> None:
    history, log = sound()
    assert check(history, log) == []
    assert check(history, log, seen={0: log[0][3:5]}) == []


def test_an_empty_log_of_nobody_has_none() -> None:
    assert check(History(), {}) == []


def lose_the_last(_: History, log: Log) -> None:
    log[0].pop()


def lose_one_and_renumber(_: History, log: Log) -> None:
    del log[0][4]
    log[0][:] = [(number, value) for number, (_, value) in enumerate(log[0], 1)]


def lose_everything(_: History, log: Log) -> None:
    log.clear()


def leave_a_gap(_: History, log: Log) -> None:
    del log[0][4]


def start_at_2(_: History, log: Log) -> None:
    del log[1][0]


def repeat_a_number(_: History, log: Log) -> None:
    log[0].insert(3, log[0][2])


def write_twice(_: History, log: Log) -> None:
    log[1].append((len(log[1]) + 1, log[1][0][1]))


def write_to_both_partitions(_: History, log: Log) -> None:
    log[0].append((len(log[0]) + 1, log[1][0][1]))


def move_to_the_other_partition(_: History, log: Log) -> None:
    log[1].pop()
    number, value = log[1].pop()
    log[0].append((len(log[0]) + 1, value))
    assert number


def swap(_: History, log: Log) -> None:
    (a, first), (b, second) = log[0][0], log[0][2]
    log[0][0], log[0][2] = (a, second), (b, first)


def invent(_: History, log: Log) -> None:
    log[0].append((len(log[0]) + 1, marked(Mark(3, 1))))


def keep_what_was_refused(_: History, log: Log) -> None:
    log[1].append((len(log[1]) + 1, marked(Mark(1, 7))))


def flip_a_bit(_: History, log: Log) -> None:
    number, value = log[0][5]
    assert value
    log[0][5] = (number, value[:-1] + bytes([value[-1] ^ 1]))


def cut_short(_: History, log: Log) -> None:
    number, value = log[0][5]
    assert value
    log[0][5] = (number, value[:-1])


def forget_the_value(_: History, log: Log) -> None:
    log[0][5] = (log[0][5][0], None)


PLANTED: list[tuple[Callable[[History, Log], None], str]] = [
    (lose_the_last, "lost"),
    (lose_one_and_renumber, "lost"),
    (lose_one_and_renumber, "moved"),
    (lose_everything, "lost"),
    (leave_a_gap, "gap"),
    (start_at_2, "gap"),
    (repeat_a_number, "gap"),
    (write_twice, "duplicate"),
    (write_twice, "reordered"),
    (write_to_both_partitions, "duplicate"),
    (move_to_the_other_partition, "moved"),
    (swap, "reordered"),
    (swap, "moved"),
    (invent, "invented"),
    (keep_what_was_refused, "refused"),
    (flip_a_bit, "corrupted"),
    (flip_a_bit, "lost"),
    (cut_short, "corrupted"),
    (forget_the_value, "corrupted"),
]


@pytest.mark.parametrize(("plant", "kind"), PLANTED, ids=lambda case: case if isinstance(case, str) else case.__name__)
def test_a_planted_anomaly_is_found(plant: Callable[[History, Log], None], kind: str) -> None:
    history, log = sound()
    plant(history, log)
    assert kind in kinds(history, log)


def test_lost_unless_it_was_acknowledged() -> None:
    """The last message of writer 1 was never acknowledged: it may be there, or not."""
    history, log = sound()
    log[1].pop()
    assert check(history, log) == []


def test_what_a_reader_saw_must_stay() -> None:
    history, log = sound()
    seen: Log = {1: [(len(log[1]), log[1][-1][1])]}
    log[1].pop()
    assert kinds(history, log, seen=seen) == {"vanished"}
    log[1].append((len(log[1]) + 1, marked(Mark(2, 19))))
    assert kinds(history, log, seen=seen) == {"vanished"}


def test_retention_may_remove_the_oldest() -> None:
    """Below the first number kept nothing is missed; above it everything is."""
    history, log = sound()
    del log[0][:3]
    assert check(history, log, first={0: 4}, seen={0: [(1, marked(Mark(1, 0), 40))]}) == []
    assert {anomaly.kind for anomaly in check(history, log, first={0: 3})} == {"gap", "lost"}


def test_sentences_name_message_and_place() -> None:
    history, log = sound()
    log[0].pop()
    (anomaly, *_) = check(history, log)
    assert (
        anomaly.sentence == "message 18 of writer 2 was acknowledged as number 20 of partition 0 and is not in the log"
    )


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1), st.integers(0, 300))
def test_a_mark_is_read_back(writer: int, sequence: int, size: int) -> None:
    value = marked(Mark(writer, sequence), size)
    assert mark_of(value) == (writer, sequence)
    assert len(value) >= size


@given(st.binary(max_size=60))
def test_other_bytes_have_no_mark(value: bytes) -> None:
    assert mark_of(value) is None


@given(st.integers(0, 59 * 8))
def test_no_bit_can_flip_unnoticed(bit: int) -> None:
    value = bytearray(marked(Mark(3, 4), 60))
    value[bit // 8] ^= 1 << bit % 8
    assert mark_of(bytes(value)) is None

"""What a partition remembers of its producers."""

import contextlib

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.batch import Header
from ottla.errors import (
    CorruptBatch,
    DuplicateSequence,
    OutOfSequence,
    ProducerFenced,
    UnexpectedNext,
    UnknownProducer,
)
from ottla.storage.producers import MAX_PRODUCERS, REMEMBERED_BATCHES, Admission, Producers, judge
from ottla.testing.samples import Sender, batch_of

ALICE = Sender.number(1)
BOB = Sender.number(2)
NAME = ("deliveries", 0)


def header(sender: Sender, sequence: int, *, first: int = 1, count: int = 1, append_ms: int = 5) -> Header:
    return sender.batch(sequence, *[b"x"] * count).numbered(first, append_ms).header


def table_of(*headers: Header) -> Producers:
    producers = Producers()
    for each in headers:
        producers.note(each)
    return producers


class TestJudging:
    def test_without_a_producer_everything_is_new(self) -> None:
        assert judge(None, batch_of(b"a").header) is None

    def test_an_unknown_producer_starts_at_0(self) -> None:
        assert judge(None, header(ALICE, 0)) is None
        with pytest.raises(UnknownProducer):
            judge(None, header(ALICE, 1))

    def test_the_next_sequence_is_new(self) -> None:
        known = table_of(header(ALICE, 0)).get(ALICE.producer_id)
        assert judge(known, header(ALICE, 1)) is None

    def test_the_same_sequence_has_its_numbers_from_then(self) -> None:
        known = table_of(header(ALICE, 0, first=7, count=3)).get(ALICE.producer_id)
        assert judge(known, header(ALICE, 0, count=3)) == (7, 3, True)

    def test_a_gap_is_out_of_sequence(self) -> None:
        known = table_of(header(ALICE, 0)).get(ALICE.producer_id)
        with pytest.raises(OutOfSequence) as refused:
            judge(known, header(ALICE, 5))
        assert (refused.value.sequence, refused.value.expected) == (5, 1)

    def test_beyond_the_window_it_is_a_duplicate_without_numbers(self) -> None:
        known = table_of(*(header(ALICE, n, first=n + 1) for n in range(REMEMBERED_BATCHES + 1))).get(ALICE.producer_id)
        assert judge(known, header(ALICE, 1)) == (2, 1, True)
        with pytest.raises(DuplicateSequence):
            judge(known, header(ALICE, 0))

    def test_epochs(self) -> None:
        """A lower one is fenced, a higher one starts at 0 again."""
        known = table_of(header(Sender.number(1, epoch=4), 0)).get(ALICE.producer_id)
        with pytest.raises(ProducerFenced):
            judge(known, header(Sender.number(1, epoch=3), 0))
        with pytest.raises(OutOfSequence):
            judge(known, header(Sender.number(1, epoch=5), 1))
        assert judge(known, header(Sender.number(1, epoch=5), 0)) is None

    def test_sparse_sequences_may_skip(self) -> None:
        known = table_of(ALICE.batch(3, sparse=True).numbered(1, 0).header).get(ALICE.producer_id)
        assert judge(known, ALICE.batch(9, sparse=True).header) is None
        assert judge(known, ALICE.batch(3, sparse=True).header) == (1, 1, True)
        with pytest.raises(DuplicateSequence):
            judge(known, ALICE.batch(2, sparse=True).header)


class TestTable:
    def test_it_notes_only_batches_with_a_producer(self) -> None:
        producers = table_of(batch_of(b"a").numbered(1, 0).header)
        assert len(producers) == 0

    def test_a_newer_epoch_forgets_the_older_sequences(self) -> None:
        newer = Sender.number(1, epoch=1)
        known = table_of(header(ALICE, 0), header(ALICE, 1), header(newer, 0, first=3)).get(ALICE.producer_id)
        assert known is not None
        assert (known.epoch, known.batches) == (1, ((0, 3, 1),))

    def test_the_least_recently_used_is_forgotten(self) -> None:
        """The table is bounded, and whoever wrote lately stays."""
        producers = table_of(*(header(Sender.number(n), 0) for n in range(MAX_PRODUCERS)))
        producers.note(header(Sender.number(0), 1))
        producers.note(header(Sender.number(MAX_PRODUCERS), 0))
        assert len(producers) == MAX_PRODUCERS
        assert Sender.number(0).producer_id in producers
        assert Sender.number(1).producer_id not in producers

    @given(
        st.lists(
            st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(1, 9), st.integers(-(2**62), 2**62)),
            max_size=60,
        )
    )
    def test_stored_and_read_again_it_is_the_same(self, notes: list[tuple[int, int, int, int]]) -> None:
        """Whatever was noted: same producers, same memory, same order of forgetting."""
        producers, sequence = Producers(), 0
        for number, epoch, count, append_ms in notes:
            known = producers.get(Sender.number(number).producer_id)
            if known is None or epoch >= known.epoch:
                sequence += 1
                batch = Sender.number(number, epoch).batch(sequence, *[b"x"] * count)
                producers.note(batch.numbered(sequence, append_ms).header)
        stored = producers.encode()
        again = Producers.decode(stored)
        assert again.encode() == stored
        for number in range(5):
            assert again.get(Sender.number(number).producer_id) == producers.get(Sender.number(number).producer_id)

    @given(st.binary(max_size=200))
    def test_other_bytes_are_refused(self, stored: bytes) -> None:
        """Bytes that are no table are an error, whatever they are."""
        with pytest.raises(CorruptBatch):
            Producers.decode(stored)

    @given(st.binary(min_size=4, max_size=400))
    def test_a_true_checksum_makes_no_table(self, data: bytes) -> None:
        """Lengths are checked too: nonsense with a right checksum is an error, or a table that stores as it was."""
        stored = data + google_crc32c.value(data).to_bytes(4, "little")
        with contextlib.suppress(CorruptBatch):
            assert Producers.decode(stored).encode() == stored

    @pytest.mark.parametrize("change", ["shorter", "longer", "none remembered", "more than there are"])
    def test_counts_that_cannot_be_are_refused(self, change: str) -> None:
        data = bytearray(table_of(header(ALICE, 0), header(BOB, 0)).encode()[:-4])
        match change:
            case "shorter":
                del data[-1]
            case "longer":
                data += b"\0"
            case "none remembered":
                data[32:36] = bytes(4)
            case _:
                data[0] = 3
        with pytest.raises(CorruptBatch):
            Producers.decode(bytes(data) + google_crc32c.value(bytes(data)).to_bytes(4, "little"))


class TestAdmission:
    def test_batches_are_numbered_one_after_another(self) -> None:
        admission = Admission(Producers(), 10, 77)
        assert admission.admit([batch_of(b"a", b"b"), batch_of(b"c")], None, NAME) == [(10, 2, False), (12, 1, False)]
        assert admission.admit([batch_of(b"d")], None, NAME) == [(13, 1, False)]
        assert [(batch.first_number, batch.header.append_ms) for batch in admission.batches] == [
            (10, 77),
            (12, 77),
            (13, 77),
        ]
        assert admission.next_number == 14

    def test_a_refused_call_leaves_nothing_behind(self) -> None:
        """Neither batches nor numbers nor sequences: the next call is judged as if it had never come."""
        admission = Admission(Producers(), 1, 0)
        with pytest.raises(OutOfSequence):
            admission.admit([ALICE.batch(0), ALICE.batch(2)], None, NAME)
        assert (admission.batches, admission.next_number) == ([], 1)
        assert admission.admit([ALICE.batch(0)], None, NAME) == [(1, 1, False)]

    def test_calls_of_one_commit_see_each_other(self) -> None:
        """The same batch from two callers is stored once, though the table does not know it yet."""
        admission = Admission(Producers(), 1, 0)
        assert admission.admit([ALICE.batch(0)], None, NAME) == [(1, 1, False)]
        assert admission.admit([ALICE.batch(0), ALICE.batch(1)], None, NAME) == [(1, 1, True), (2, 1, False)]
        assert len(admission.batches) == 2

    def test_the_expected_number_is_that_of_the_commit(self) -> None:
        """The second of two calls in one commit meets the number that the first one left."""
        admission = Admission(Producers(), 1, 0)
        admission.admit([batch_of(b"a")], 1, NAME)
        with pytest.raises(UnexpectedNext) as refused:
            admission.admit([batch_of(b"b")], 1, NAME)
        assert (refused.value.expected, refused.value.actual) == (1, 2)
        assert admission.admit([batch_of(b"b")], 2, NAME) == [(2, 1, False)]

    def test_a_duplicate_is_not_compared(self) -> None:
        admission = Admission(table_of(header(ALICE, 0, first=4)), 9, 0)
        assert admission.admit([ALICE.batch(0)], 4, NAME) == [(4, 1, True)]
        assert admission.batches == []

    def test_the_table_changes_only_when_it_is_settled(self) -> None:
        """A commit that fails is as if it had never been tried."""
        producers = Producers()
        admission = Admission(producers, 1, 0)
        admission.admit([ALICE.batch(0)], None, NAME)
        assert ALICE.producer_id not in producers
        admission.settle()
        assert ALICE.producer_id in producers

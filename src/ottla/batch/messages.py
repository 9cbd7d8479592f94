"""What a read returns: messages in order, columnar until someone asks for single ones."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import pyarrow as pa

from ottla.batch.batch import Batch
from ottla.batch.columns import Columns
from ottla.batch.message_headers import HEADERS_TYPE, decode_headers, headers_to_arrow
from ottla.errors import InvalidValue, MissingDependency
from ottla.model import Message

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("number", pa.int64()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS_TYPE),
    ]
)
"""The columns of `Messages.to_arrow()`."""


class _Piece(NamedTuple):
    """The messages *low* to *high* - 1, counted from 0, of one batch."""

    partition: int
    batch: Batch
    low: int
    high: int

    def columns(self) -> Columns:
        columns = self.batch.columns()
        whole = self.low == 0 and self.high == self.batch.count
        return columns if whole else columns.slice(self.low, self.high - self.low)

    def timestamps(self) -> pa.Int64Array:
        return self.batch.timestamps().slice(self.low, self.high - self.low)

    def numbers(self) -> range:
        first = self.batch.first_number
        return range(first + self.low, first + self.high)


class Messages(Sequence[Message]):
    """A sequence of `Message`, over whole batches that are decoded as they are needed."""

    def __init__(self, topic: str, pieces: Sequence[_Piece] = ()) -> None:
        self.topic = topic
        self._pieces = list(pieces)
        self._length = sum(piece.high - piece.low for piece in self._pieces)

    @classmethod
    def of(
        cls, topic: str, partition: int, batches: Sequence[Batch], start: int, max_messages: int | None = None
    ) -> "Messages":
        """The messages with a number of at least *start*, and no more than *max_messages* of them."""
        left = max_messages
        pieces = []
        for batch in batches:
            low = max(start - batch.first_number, 0)
            high = batch.count if left is None else min(batch.count, low + left)
            if low < high:
                pieces.append(_Piece(partition, batch, low, high))
                left = None if left is None else left - (high - low)
        return cls(topic, pieces)

    def __add__(self, other: "Messages") -> "Messages":
        return Messages(self.topic, [*self._pieces, *other._pieces])

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Message]:
        for piece in self._pieces:
            yield from self._single(piece)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> "Messages": ...
    def __getitem__(self, index: int | slice) -> "Message | Messages":
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            if step != 1:
                raise InvalidValue("step", step, "messages are cut without one: slice list(messages) instead")
            return Messages(self.topic, list(self._cut(start, stop)))
        at = index + self._length if index < 0 else index
        for piece in self._cut(at, at + 1) if 0 <= at < self._length else ():
            return next(iter(self._single(piece)))
        raise IndexError(f"message {index} of {self._length}")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Messages | list | tuple):
            return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # a sequence of unbounded length is no key

    def _cut(self, start: int, stop: int) -> Iterator[_Piece]:
        for piece in self._pieces:
            length = piece.high - piece.low
            low, high = max(start, 0), min(stop, length)
            if low < high:
                yield piece._replace(low=piece.low + low, high=piece.low + high)
            start, stop = start - length, stop - length

    def _single(self, piece: _Piece) -> Iterator[Message]:
        columns, count = piece.columns(), piece.high - piece.low
        nones: list[Any] = [None] * count
        return map(
            Message._make,
            zip(
                [self.topic] * count,
                [piece.partition] * count,
                piece.numbers(),
                piece.timestamps().to_pylist(),
                nones if columns.keys is None else columns.keys.to_pylist(),
                columns.values.to_pylist(),
                [()] * count if columns.headers is None else map(decode_headers, columns.headers.to_pylist()),
                strict=True,
            ),
        )

    def values(self) -> list[bytes | None]:
        """Just the values, as a list: the fastest way into Python objects."""
        return [value for piece in self._pieces for value in piece.columns().values.to_pylist()]

    def to_arrow(self) -> pa.Table:
        """An Arrow table with the columns of `SCHEMA`; values and keys are not copied."""
        batches = [self._record_batch(piece) for piece in self._pieces]
        return pa.Table.from_batches(batches, SCHEMA)

    def to_pandas(self) -> "pd.DataFrame":
        """A pandas data frame with the columns of `SCHEMA`."""
        try:
            import pandas  # noqa: F401, ICN001, PLC0415  (optional; pyarrow's own message names no remedy)
        except ImportError as error:
            raise MissingDependency("to_pandas()", "pandas", "'ottla[pandas]'") from error
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def to_polars(self) -> "pl.DataFrame":
        """A Polars data frame with the columns of `SCHEMA`."""
        try:
            import polars as pl  # noqa: PLC0415  (optional)
        except ImportError as error:
            raise MissingDependency("to_polars()", "polars", "'ottla[polars]'") from error
        frame = pl.from_arrow(self.to_arrow())
        assert isinstance(frame, pl.DataFrame)  # a table gives a frame; for the type checker
        return frame

    def _record_batch(self, piece: _Piece) -> pa.RecordBatch:
        columns, numbers = piece.columns(), piece.numbers()
        count = len(numbers)
        return pa.RecordBatch.from_arrays(
            [
                pa.repeat(pa.scalar(self.topic), count),
                pa.repeat(pa.scalar(piece.partition, pa.int32()), count),
                pa.arange(numbers.start, numbers.stop),
                piece.timestamps().cast(SCHEMA.field("timestamp").type),
                pa.nulls(count, pa.binary()) if columns.keys is None else columns.keys,
                columns.values,
                headers_to_arrow(columns.headers, count),
            ],
            schema=SCHEMA,
        )

    def __repr__(self) -> str:
        return f"Messages({self._length} of {self.topic!r})"

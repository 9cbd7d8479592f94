"""Records, columns and bytes: how messages look in memory, on the wire and in storage. No I/O."""

from ottla.batch.batch import Batch, Stamp
from ottla.batch.columns import Columns, columns_of_lists, columns_of_records, columns_of_values
from ottla.batch.header import HEADER_BYTES, Compression, Header, unpack_header
from ottla.batch.messages import SCHEMA, Messages

__all__ = [
    "HEADER_BYTES",
    "SCHEMA",
    "Batch",
    "Columns",
    "Compression",
    "Header",
    "Messages",
    "Stamp",
    "columns_of_lists",
    "columns_of_records",
    "columns_of_values",
    "unpack_header",
]

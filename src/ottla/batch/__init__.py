"""Records, columns and bytes: how messages look in memory, on the wire and in storage. No I/O."""

from ottla.batch.arrow import columns_of_arrow
from ottla.batch.batch import Batch, Stamp
from ottla.batch.columns import Columns, columns_of_lists, columns_of_records, columns_of_values, split
from ottla.batch.header import HEADER_BYTES, Compression, Header, unpack_header
from ottla.batch.message_headers import HEADERS_TYPE, decode_headers, encode_headers
from ottla.batch.messages import SCHEMA, Messages

__all__ = [
    "HEADERS_TYPE",
    "HEADER_BYTES",
    "SCHEMA",
    "Batch",
    "Columns",
    "Compression",
    "Header",
    "Messages",
    "Stamp",
    "columns_of_arrow",
    "columns_of_lists",
    "columns_of_records",
    "columns_of_values",
    "decode_headers",
    "encode_headers",
    "split",
    "unpack_header",
]

"""Wrote the files in `batches/`. Do not run it to make a test pass: stored batches must be readable for ever.

Run it for a new shape only, as `python tests/golden/make_batches.py`; what is there already is left alone.
"""

from pathlib import Path

from ottla.batch import Batch, Columns, Stamp, columns_of_lists
from ottla.batch.header import COMPRESSIONS

FOLDER = Path(__file__).parent / "batches"

STAMP = Stamp(bytes.fromhex("000102030405060708090a0b0c0d0e0f"), epoch=3, sequence=1_000_000_007)
SPARSE_STAMP = Stamp(b"ottla-spark-sink", epoch=0, sequence=42, sparse=True)
LINE = b"truck 1021 left the depot on time; "

SHAPES: dict[str, tuple[Columns, Stamp | None]] = {
    "values": (columns_of_lists([LINE * 3, LINE * 2, LINE]), None),
    "nulls": (columns_of_lists([None, b"", LINE * 8, None, b"\x00\xff", *[None] * 4, LINE]), None),
    "keys": (columns_of_lists([LINE] * 3, [b"melbourne", None, b""]), STAMP),
    "headers": (columns_of_lists([LINE] * 3, None, [(("trace", b"\x01"), ("trace", None)), (), (("é", b""),)]), None),
    "timestamps": (columns_of_lists([LINE] * 3, timestamps=[1_700_000_000_000, -1, 2**60]), None),
    "everything": (
        columns_of_lists(
            [LINE * 4, None, b""],
            [None, b"geelong", b"geelong"],
            [(("route", b"7"),), (), (("none", None),)],
            [1_700_000_000_000, 1_700_000_000_001, 1_699_999_999_999],
        ),
        SPARSE_STAMP,
    ),
}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for shape, (columns, stamp) in SHAPES.items():
        for compression in COMPRESSIONS:
            path = FOLDER / f"{shape}.{compression}.batch"
            if not path.exists():
                batch = Batch.pack(columns, compression=compression, stamp=stamp).numbered(41, 1_700_000_000_555)
                assert batch.header.compression == compression, path
                path.write_bytes(batch.to_bytes())


if __name__ == "__main__":
    main()

"""HTTP/2 header blocks (HPACK, RFC 7541) without a dynamic table. No I/O.

What is sent are literals that the other side need not remember, and the other side is told (by the setting
`HEADER_TABLE_SIZE` = 0) to remember nothing either; so a block can be read without knowing those before it.
"""

from collections.abc import Iterable
from functools import cache
from typing import Final

_STATIC: Final = [
    tuple(entry.partition("=")[::2])
    for entry in [
        ":authority",
        ":method=GET",
        ":method=POST",
        ":path=/",
        ":path=/index.html",
        ":scheme=http",
        ":scheme=https",
        ":status=200",
        ":status=204",
        ":status=206",
        ":status=304",
        ":status=400",
        ":status=404",
        ":status=500",
        "accept-charset",
        "accept-encoding=gzip, deflate",
        "accept-language",
        "accept-ranges",
        "accept",
        "access-control-allow-origin",
        "age",
        "allow",
        "authorization",
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-length",
        "content-location",
        "content-range",
        "content-type",
        "cookie",
        "date",
        "etag",
        "expect",
        "expires",
        "from",
        "host",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-range",
        "if-unmodified-since",
        "last-modified",
        "link",
        "location",
        "max-forwards",
        "proxy-authenticate",
        "proxy-authorization",
        "range",
        "referer",
        "refresh",
        "retry-after",
        "server",
        "set-cookie",
        "strict-transport-security",
        "transfer-encoding",
        "user-agent",
        "vary",
        "via",
        "www-authenticate",
    ]
]
"""The static table, from index 1."""

_CODE_LENGTHS: Final = (
    "ISXXXXXXXTZXXZXXXXXXXXZXXXXXXXXXBFFHIBDGFFDGDBBBAAABBBBBBBCDKBHFIBCCCCCCCCCCCCCCCCCCCCCCDCDIOIJB"
    "KABABABBBACCBBBABCBAABCCCCCKGJIXPRPPRRRSRSSSSSTSTTRSTSSSSQRSRSSTRQPRRSSQSRRTQRSSQQRQSRSSPRRRSRRS"
    "VVPORSRUVVVWWVTUOQVWWVWTQQVVXWWWPTPQRQQSRRUUTTVSVWVVWWWWWXWWWWWVZ"
)
"""How many bits the Huffman code of each byte has, and of the end of the string after them: A is 5, B is 6 … The
code is canonical, so that the lengths say everything."""
_SHORTEST: Final = 5
_END: Final = 256
_MOST_PADDING: Final = 7

_INDEXED: Final = 0x80
_REMEMBERED: Final = 0x40
_RESIZED: Final = 0x20


class BadHeaders(Exception):
    """Bytes that are no header block, or one that refers to what was never sent."""


def encode_headers(headers: Iterable[tuple[str, str]]) -> bytes:
    """A block of literals."""
    return b"".join(b"\x00" + _encode_string(name) + _encode_string(value) for name, value in headers)


def decode_headers(block: bytes) -> dict[str, str]:
    """The headers by name; the last of a name counts."""
    headers: dict[str, str] = {}
    at = 0
    try:
        while at < len(block):
            first = block[at]
            if first & _INDEXED:
                index, at = _decode_number(block, at, 7)
                name, value = _static(index)
            elif first & _RESIZED and not first & _REMEMBERED:
                _, at = _decode_number(block, at, 5)
                continue
            else:
                index, at = _decode_number(block, at, 6 if first & _REMEMBERED else 4)
                name, at = (_static(index)[0], at) if index else _decode_string(block, at)
                value, at = _decode_string(block, at)
            headers[name] = value
    except IndexError:
        raise BadHeaders("a header block ends early") from None
    return headers


def _static(index: int) -> tuple[str, str]:
    if not 1 <= index <= len(_STATIC):
        raise BadHeaders(f"there is no header of index {index}")
    name, value = _STATIC[index - 1]
    return name, value


def _encode_string(text: str) -> bytes:
    data = text.encode()
    length, head = len(data), bytearray()
    if length < 0x7F:  # noqa: PLR2004  (the prefix has 7 bits)
        head.append(length)
    else:
        head.append(0x7F)
        length -= 0x7F
        while length >= 0x80:  # noqa: PLR2004  (7 bits a byte from here on)
            head.append(length & 0x7F | 0x80)
            length >>= 7
        head.append(length)
    return bytes(head) + data


def _decode_number(block: bytes, at: int, bits: int) -> tuple[int, int]:
    """A number whose first bits are in a prefix, and where the next thing begins."""
    most = (1 << bits) - 1
    number = block[at] & most
    at += 1
    if number < most:
        return number, at
    for shift in range(0, 35, 7):
        byte = block[at]
        number += (byte & 0x7F) << shift
        at += 1
        if not byte & 0x80:
            return number, at
    raise BadHeaders("a number in a header block is too long")


def _decode_string(block: bytes, at: int) -> tuple[str, int]:
    huffman = block[at] & 0x80
    length, at = _decode_number(block, at, 7)
    data = block[at : at + length]
    if len(data) < length:
        raise BadHeaders("a header block ends early")
    return (_decode_huffman(data) if huffman else data).decode("utf-8", "replace"), at + length


@cache
def _codes() -> dict[tuple[int, int], int]:
    """From length and code to the byte."""
    codes: dict[tuple[int, int], int] = {}
    code, last = 0, _SHORTEST
    for length, symbol in sorted((_SHORTEST + ord(letter) - ord("A"), n) for n, letter in enumerate(_CODE_LENGTHS)):
        code <<= length - last
        codes[length, code] = symbol
        code, last = code + 1, length
    return codes


def _decode_huffman(data: bytes) -> bytes:
    codes = _codes()
    found = bytearray()
    code = length = 0
    for byte in data:
        for bit in range(7, -1, -1):
            code = code << 1 | byte >> bit & 1
            length += 1
            symbol = codes.get((length, code))
            if symbol is not None:
                if symbol == _END:
                    raise BadHeaders("a string in a header block goes on after its end")
                found.append(symbol)
                code = length = 0
    if length > _MOST_PADDING or code != (1 << length) - 1:
        raise BadHeaders("a string in a header block ends in the middle of a letter")
    return bytes(found)

"""Header blocks of HTTP/2."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.storage.remote.hpack import BadHeaders, decode_headers, encode_headers


@given(st.dictionaries(st.text(min_size=1, max_size=300), st.text(max_size=300)))
def test_what_is_encoded_is_decoded(headers: dict[str, str]) -> None:
    assert decode_headers(encode_headers(headers.items())) == headers


def test_long_values() -> None:
    headers = {"a": "x" * 126, "b": "x" * 127, "c": "x" * 128, "d": "x" * 300, "e": "x" * 70_000}
    assert decode_headers(encode_headers(headers.items())) == headers


@pytest.mark.parametrize(
    ("block", "headers"),
    [
        ("400a637573746f6d2d6b65790d637573746f6d2d686561646572", {"custom-key": "custom-header"}),  # C.2.1
        ("040c2f73616d706c652f70617468", {":path": "/sample/path"}),  # C.2.2
        ("100870617373776f726406736563726574", {"password": "secret"}),  # C.2.3
        ("82", {":method": "GET"}),  # C.2.4
        (
            "828684418cf1e3c2e5f23a6ba0ab90f4ff",  # C.4.1
            {":method": "GET", ":scheme": "http", ":path": "/", ":authority": "www.example.com"},
        ),
        (
            "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3",
            {
                ":status": "302",
                "cache-control": "private",
                "date": "Mon, 21 Oct 2013 20:13:21 GMT",
                "location": "https://www.example.com",
            },  # C.6.1
        ),
        ("3f00" + "88", {":status": "200"}),  # told to remember nothing
    ],
)
def test_examples_of_the_standard(block: str, headers: dict[str, str]) -> None:
    """RFC 7541, Appendix C: those that do not refer to what was sent before."""
    assert decode_headers(bytes.fromhex(block)) == headers


@pytest.mark.parametrize(
    "block",
    [
        "be",  # refers to a header that was remembered
        "80",  # index 0
        "ffffffffffffff",  # a number without end
        "0003616263",  # no value
        "00036162",  # a name that ends early
        "000161857fffffff",  # Huffman: a string that ends early
        "00016184ffffffff",  # Huffman: the end of the string in the middle of it
        "0001618100",  # Huffman: padding of zeros
    ],
)
def test_broken_blocks_are_an_error(block: str) -> None:
    with pytest.raises(BadHeaders):
        decode_headers(bytes.fromhex(block))


@given(st.binary(max_size=100))
def test_hostile_bytes_are_nothing_worse(block: bytes) -> None:
    with contextlib.suppress(BadHeaders):
        decode_headers(block)

"""What `docs/other-languages.md` shows and says is so."""

import re
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import json_format
from google.protobuf.message_factory import GetMessageClass

import ottla
from ottla.protocol.errors import STATUS_OF
from ottla.protocol.services import LOG_SERVICE, MINIKAFKA_SERVICE, Stub
from ottla.server import Server

PAGE = (Path(__file__).parents[2] / "docs" / "other-languages.md").read_text(encoding="utf-8")
CALL = re.compile(r"grpcurl -plaintext -d '(.*?)'[\s\\]*127\.0\.0\.1:9999 (\S+)/(\S+)", re.DOTALL)


def test_the_table_of_errors_is_the_one_that_the_server_uses() -> None:
    rows = re.findall(r"^\| ([A-Z_]+) \| (.*) \|$", PAGE, re.MULTILINE)
    table = {name: status for status, names in rows for name in re.findall(r"`(\w+)`", names)}
    assert table == {error.__name__: status.name for error, status in STATUS_OF.items()}


def test_every_call_that_is_shown_works() -> None:
    """With the JSON that grpcurl would send."""
    answers: list[Any] = []
    with ottla.open("memory:") as log:
        server = Server(log)
        with grpc.insecure_channel(str(server.start("127.0.0.1:0"))) as channel, server:
            for data, service, method in CALL.findall(PAGE):
                found = {LOG_SERVICE.full_name: LOG_SERVICE, MINIKAFKA_SERVICE.full_name: MINIKAFKA_SERVICE}[service]
                request = GetMessageClass(found.methods_by_name[method].input_type)()
                json_format.Parse(data, request)
                answers.append(getattr(Stub(channel, found), method)(request, timeout=30))
    created, produced, polled, original_produced, original_polled = answers
    assert (created.name, created.settings.partitions) == ("deliveries", 2)
    assert [(landed.partition, landed.number) for landed in produced.landed] == [(0, 1)]
    assert [(message.key, message.value) for message in polled.messages] == [(b"melbourne", b"truck 1021 on time")]
    assert original_produced.msg_number == 1
    assert [payload.payload for payload in original_polled.payloads] == [b"hello"]

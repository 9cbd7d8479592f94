"""What `ottla doctor` looks at: each finding is a sentence in plain words, with what to change where it is bad."""

import os
import shutil
import stat
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import ottla
from ottla.cli.exits import sentence_of
from ottla.cli.output import counted, size
from ottla.client.log import Log
from ottla.errors import OttlaError, ServerUnavailable
from ottla.storage.disk.root import file_system, folder_of

_SYNCS = 50
_SYNC_BYTES = b"\0" * 4096
_SLOW_SYNC_MS = 20.0
_FAST_SYNC_MS = 0.02
_CALLS = 20
_LOW_SPACE = 0.05
_LOW_SPACE_BYTES = 2**30
_PROBE_MESSAGES = 100
_sync = getattr(os, "fdatasync", os.fsync)  # macOS has only one of them


class State(StrEnum):
    """How it is."""

    good = "good"
    note = "note"
    bad = "bad"


class Finding(NamedTuple):
    """One thing that was looked at."""

    what: str
    state: State
    says: str
    advice: str = ""


def examine(url: str, *, write: bool) -> Iterator[Finding]:
    """Everything that can be found out about the log at *url*."""
    if url.startswith(("file:", "jsonl:")):
        yield from _examine_folder(folder_of(url.partition("?")[0]))
    try:
        with ottla.open(url, read_only=not write) as log:
            if url.startswith("grpc:"):
                yield from _examine_server(log, url)
            yield from _examine_log(log)
            if write:
                yield _probe(log)
    except ServerUnavailable as error:
        yield Finding("server", State.bad, str(error))
    except OttlaError as error:
        yield Finding("log", State.bad, sentence_of(error))


def _examine_folder(folder: Path) -> Iterator[Finding]:
    place = folder
    while not place.exists():
        place = place.parent
    if place != folder:
        yield Finding("folder", State.note, f"{folder} does not exist yet", "the first use makes it")
    elif not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        advice = "run as its owner, or change its owner with chown"
        yield Finding("folder", State.bad, f"{folder} cannot be written to by this user", advice)
        return
    elif others := stat.S_IMODE(folder.stat().st_mode) & 0o077:
        advice = f"chmod go-rwx {folder}"
        yield Finding("folder", State.note, f"others may enter {folder} (mode {others:03o} for them)", advice)
    else:
        yield Finding("folder", State.good, f"{folder} is yours alone")
    yield _file_system(place)
    yield _space(place)
    if os.access(place, os.W_OK):
        yield _syncs(place)


def _file_system(place: Path) -> Finding:
    kind = file_system(place)
    if kind in {"tmpfs", "ramfs"}:
        advice = "use a folder on a disk for what must survive a restart"
        return Finding("file system", State.note, f"{kind}: it is gone when the machine stops", advice)
    if kind == "overlay":
        advice = "mount a volume there for what must survive the container"
        return Finding("file system", State.note, "overlay: inside a container's own layer", advice)
    return Finding("file system", State.good, kind or "this system does not say which it is")


def _space(place: Path) -> Finding:
    usage = shutil.disk_usage(place)
    says = f"{size(usage.free)} of {size(usage.total)} are free"
    if usage.free < max(usage.total * _LOW_SPACE, _LOW_SPACE_BYTES):
        return Finding("space", State.note, says, "shorten retention or add space: a full disk refuses messages")
    return Finding("space", State.good, says)


def _syncs(place: Path) -> Finding:
    """How long making a few kilobytes durable takes; the file is gone before it has a name."""
    try:
        with tempfile.TemporaryFile(dir=place, buffering=0) as file:
            times = [_timed(lambda: (file.write(_SYNC_BYTES), _sync(file.fileno()))) for _ in range(_SYNCS)]
    except OSError as error:
        return Finding("sync", State.bad, f"nothing can be written and synced in {place}: {error.strerror}")
    typical = statistics.median(times)
    rate = f"about {1000 / typical:,.0f} durable batches a second"
    says = f"{typical:.2f} ms typically, {max(times):.2f} ms at worst: {rate}"
    if typical > _SLOW_SYNC_MS:
        return Finding(
            "sync", State.note, says, "a faster disk helps, or larger batches, or a topic with --sync interval"
        )
    if typical < _FAST_SYNC_MS:
        return Finding(
            "sync", State.note, says, "so fast that this device may not really sync: check it if power cuts matter"
        )
    return Finding("sync", State.good, says)


def _examine_server(log: Log, url: str) -> Iterator[Finding]:
    log.topics()  # connects
    typical = statistics.median(_timed(log.topics) for _ in range(_CALLS))
    where = urlsplit(url).netloc.rpartition("@")[2]
    yield Finding("server", State.good, f"{where} answers in {typical:.2f} ms")
    cluster = _cluster(where)
    if cluster.version != ottla.__version__:
        says = f"the server is ottla {cluster.version}, this is {ottla.__version__}"
        yield Finding("version", State.note, says, "they should be the same when something does not work")
    else:
        yield Finding("version", State.good, f"both are ottla {cluster.version}")
    away = [broker for broker in cluster.brokers if not broker.alive]
    if away:
        says = f"{len(away)} of {len(cluster.brokers)} are away: {', '.join(str(broker.id) for broker in away)}"
        yield Finding("brokers", State.bad, says, "see the log of `ottla serve`")
    else:
        yield Finding("brokers", State.good, f"{len(cluster.brokers)} of {len(cluster.brokers)} are there")


def _cluster(where: str) -> Any:
    import grpc  # noqa: PLC0415  (optional, and there: the log was opened through it)

    from ottla.protocol.services import LOG_SERVICE, Stub  # noqa: PLC0415  (it needs gRPC)
    from ottla.v1 import log_pb2  # noqa: PLC0415  (likewise)

    with grpc.insecure_channel(where) as channel:
        return Stub(channel, LOG_SERVICE).DescribeCluster(log_pb2.DescribeClusterRequest(), timeout=5)


def _examine_log(log: Log) -> Iterator[Finding]:
    described = [log.describe(topic.name) for topic in log.topics()]
    messages, used = sum(one.messages for one in described), sum(one.bytes for one in described)
    yield Finding(
        "log", State.good, f"{counted(len(described), 'topic')} with {counted(messages, 'message')}, {size(used)}"
    )
    unsafe = [one.topic.name for one in described if one.topic.settings.sync == "never"]
    if unsafe:
        advice = "`ottla topics alter TOPIC --sync always` makes every message durable before it is acknowledged"
        yield Finding("durability", State.note, f"a power cut can lose messages of {', '.join(unsafe)}", advice)


def _probe(log: Log) -> Finding:
    topic = f"ottla-doctor-{uuid.uuid4().hex[:8]}"
    values = [b"%d" % index for index in range(_PROBE_MESSAGES)]
    log.create_topic(topic)
    try:
        log.append(topic, values)  # the first opens everything
        took = _timed(lambda: log.append(topic, values))
        found = log.read(topic, start=len(values) + 1).values()
    finally:
        log.delete_topic(topic)
    if found != values:
        return Finding(
            "write", State.bad, f"{len(values)} messages were written and {len(found)} were read", "run verify"
        )
    return Finding("write", State.good, f"{len(values)} messages written in {took:.2f} ms, read back and removed")


def _timed(work: Callable[[], object]) -> float:
    """Milliseconds."""
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000

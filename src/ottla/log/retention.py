"""Retention: a thread that has expired messages removed, whole segments at a time, while the log is open.

At most one thread for each open log and process, a daemon, started when a topic with a retention is seen and
after a fork when one is seen again. It looks at all topics about every second, so what another process creates
or changes counts too, and wakes at about a tenth of the shortest age. Several processes may do this to one log
at once. What fails in one topic is logged, remembered and tried again; the other topics go on. What ends the
thread itself is kept as its `failure`, so that a server can stop with it.
"""

import logging
import os
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping

from ottla.clock import Clock
from ottla.errors import Closed, TopicRecreated
from ottla.model import Topic
from ottla.storage import Engine

_LOGGER = logging.getLogger("ottla")
_SHORTEST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0
_IDLE_SHARE = 20
"""A pause is at least this many times as long as the pass before it, so that culling takes 5 % of a core at most."""


class Culler:
    """Removes what retention no longer keeps. Safe from many threads."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._errors: dict[str, Exception] = {}
        self.failure: BaseException | None = None
        """What ended the thread for good, if anything did."""
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._stopped = threading.Event()
        _CULLERS.add(self)

    @property
    def errors(self) -> Mapping[str, Exception]:
        """What went wrong in the last pass, by topic; empty when all is well."""
        return dict(self._errors)

    def notice(self, topic: Topic) -> None:
        """Start the thread if this topic needs it; called whenever a topic is looked at, so it must be cheap."""
        if self._thread is None and has_retention(topic):
            self.start()

    def start(self) -> None:
        """Start the thread, unless it runs or the log was closed."""
        with self._starting:
            if self._thread is None and not self._stopped.is_set():
                self._thread = threading.Thread(
                    target=_run, args=(weakref.ref(self), self._stopped), name="ottla-culler", daemon=True
                )
                self._thread.start()

    def stop(self) -> None:
        """Stop for good, and wait for a pass that is under way."""
        self._stopped.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def cull(self) -> Mapping[str, Exception]:
        """One pass over all topics; returns what went wrong, by topic."""
        self._errors = dict(self._failures(self._engine.topics()))
        return self.errors

    def pass_and_pause(self) -> float:
        """One pass of the thread; returns the seconds until the next."""
        started = time.monotonic()
        try:
            topics = self._engine.topics()
        except Closed:  # by its owner: nothing is left to do
            self._stopped.set()
            topics, failures = [], {}
        except Exception as error:  # noqa: BLE001  (a thread that dies stops retention in silence)
            topics, failures = [], {"*": error}
        else:
            failures = dict(self._failures(topics))
        if not self._stopped.is_set():
            self._report(failures)
        return max(_pause(topics), _IDLE_SHARE * (time.monotonic() - started))

    def _failures(self, topics: Iterable[Topic]) -> Iterator[tuple[str, Exception]]:
        for topic in filter(has_retention, topics):
            try:
                self._expire(topic)
            except TopicRecreated:
                continue  # it was deleted meanwhile: nothing is left to expire
            except Exception as error:  # noqa: BLE001  (one topic's trouble must not keep the others' messages)
                yield topic.name, error

    def _expire(self, topic: Topic) -> None:
        settings = topic.settings
        older_than_ms = None if settings.retention_ms is None else self._clock.now_ms() - settings.retention_ms
        for index in range(settings.partitions):
            partition = self._engine.partition(topic, index)
            partition.expire(older_than_ms=older_than_ms, max_bytes=settings.retention_bytes)

    def _report(self, failures: dict[str, Exception]) -> None:
        for topic, error in failures.items():
            if repr(self._errors.get(topic)) != repr(error):  # say it once, not twenty times a second
                _LOGGER.error("retention of topic %s failed and will be tried again: %s", topic, error)
        self._errors = failures

    def forget_thread(self) -> None:
        """In a forked child the parent's thread does not run, and its locks may be held for ever."""
        stopped = self._stopped.is_set()
        self._thread, self._starting, self._stopped = None, threading.Lock(), threading.Event()
        if stopped:
            self._stopped.set()


def has_retention(topic: Topic) -> bool:
    """Whether the topic's messages expire at all."""
    return topic.settings.retention_ms is not None or topic.settings.retention_bytes is not None


def _pause(topics: Iterable[Topic]) -> float:
    ages_ms = [topic.settings.retention_ms for topic in topics if topic.settings.retention_ms is not None]
    tenth_s = min(ages_ms, default=10_000) / 10 / 1000
    return min(max(tenth_s, _SHORTEST_PAUSE_S), _LONGEST_PAUSE_S)


def _run(reference: "weakref.ref[Culler]", stopped: threading.Event) -> None:
    """The thread. It keeps no log alive that nobody uses any more."""
    pause_s = 0.0
    while not stopped.wait(pause_s):
        culler = reference()
        if culler is None:
            return
        try:
            pause_s = culler.pass_and_pause()
        except BaseException as error:
            culler.failure = error
            _LOGGER.critical("retention ended and will not be carried out any more", exc_info=error)
            return
        del culler


_CULLERS: "weakref.WeakSet[Culler]" = weakref.WeakSet()


def _after_fork() -> None:
    for culler in _CULLERS:
        culler.forget_thread()


os.register_at_fork(after_in_child=_after_fork)

"""How a program ends: its exit code, and the one place where an error becomes a sentence.

0    done
1    it failed, for any reason without a code of its own
2    the command or one of its values is wrong; nothing was changed
3    what was asked for is not there: a topic, a partition, a group, or as many messages as --count says
4    no server answers, or it is too busy
5    stored data is damaged
130  Ctrl-C · 141 the reader of the output has gone · 143 told to terminate
"""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from ottla.errors import (
    CorruptBatch,
    CorruptLog,
    InvalidValue,
    OttlaError,
    ServerError,
    TopicExists,
    TopicRecreated,
    UnknownPartition,
    UnknownTopic,
)

OK, FAILED, USAGE, MISSING, AWAY, DAMAGED = range(6)
INTERRUPTED, CLOSED_PIPE, TERMINATED = 130, 141, 143

_CODES: dict[type[Exception], int] = {
    InvalidValue: USAGE,
    UnknownTopic: MISSING,
    UnknownPartition: MISSING,
    ServerError: AWAY,
    CorruptBatch: DAMAGED,
    CorruptLog: DAMAGED,
}


class Failure(Exception):
    """A command cannot do what it was asked to; one sentence, and the exit code."""

    def __init__(self, sentence: str, code: int = FAILED) -> None:
        self.code = code
        super().__init__(sentence)


class Terminated(BaseException):
    """The process was told to terminate; what is open is closed on the way out."""


def ended(work: Callable[[], int | None], program: str = "ottla") -> int:
    """Do *work* and return the exit code. Whatever goes wrong is said in one sentence, without a traceback."""
    try:
        with _terminable():
            code = work()
            sys.stdout.flush()
            return code or OK
    except KeyboardInterrupt:
        return INTERRUPTED
    except Terminated:
        return TERMINATED
    except BrokenPipeError:
        _silence_stdout()
        return CLOSED_PIPE
    except (Failure, OttlaError, OSError) as error:
        return _said(program, sentence_of(error), _code_of(error))
    except Exception as error:  # noqa: BLE001  (the last resort: a person gets a sentence, not a traceback)
        return _said(program, f"this should not happen ({type(error).__name__}: {error})", FAILED)


def say(sentence: str, program: str = "ottla") -> None:
    """One line for the person at the terminal, on standard error."""
    sys.stderr.write(f"{program}: {sentence}\n")
    sys.stderr.flush()


def sentence_of(error: BaseException) -> str:  # noqa: PLR0911  (one for each error with words of its own)
    """What went wrong, in the words of the command line instead of the library's."""
    match error:
        case UnknownTopic(topic=topic):
            return f"topic {topic!r} does not exist: make it with `ottla topics create {topic}`, or post to it first"
        case TopicExists(topic=topic):
            return f"topic {topic!r} already exists: choose another name, or change it with `ottla topics alter`"
        case TopicRecreated(topic=topic):
            return f"topic {topic!r} was deleted while it was in use: start again"
        case InvalidValue(what="folder", value=folder, rule=rule) if "no ottla log" in rule:
            return f"there is no log in {folder}: check the name, or make a topic there first"
        case CorruptLog():
            return (
                f"{error.path} is damaged at byte {error.position}: {error.reason}; "
                "`ottla verify` shows all damage, `ottla repair` sets it aside"
            )
        case OSError(filename=str(path), strerror=str(reason)):
            return f"{path}: {reason}"
        case _:
            return str(error).replace("\n", " ") or type(error).__name__


def _code_of(error: Exception) -> int:
    if isinstance(error, Failure):
        return error.code
    return next((code for kind, code in _CODES.items() if isinstance(error, kind)), FAILED)


def _said(program: str, sentence: str, code: int) -> int:
    if os.environ.get("OTTLA_DEBUG") == "1":
        traceback.print_exc()
    say(sentence, program)
    return code


def _silence_stdout() -> None:
    """Nobody reads any more: what is still buffered goes nowhere, so that the interpreter ends in silence."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM end the work as Ctrl-C does: producers send what they hold, positions are stored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise Terminated

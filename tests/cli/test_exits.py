"""Every error has its sentence and its code."""

import pytest

from ottla import errors
from ottla.cli.exits import AWAY, DAMAGED, FAILED, MISSING, OK, USAGE, Failure, ended

CASES = [
    (errors.InvalidValue("partitions", 0, "give more"), USAGE, "partitions 0 is not valid: give more"),
    (errors.UnknownEngine("URL", "ftp:", "known: file"), USAGE, "URL 'ftp:' is not valid: known: file"),
    (errors.UnknownTopic("t"), MISSING, "topic 't' does not exist: make it with `ottla topics create t`"),
    (errors.UnknownPartition("t", 7, 2), MISSING, "topic 't' has no partition 7"),
    (errors.TopicExists("t"), FAILED, "change it with `ottla topics alter`"),
    (errors.TopicRecreated("t", "id"), FAILED, "topic 't' was deleted while it was in use"),
    (errors.ServerUnavailable("h:1", "refused"), AWAY, "no server answers at h:1 (refused)"),
    (errors.ServerBusy(2, 1, 50), AWAY, "repeat the call after 50 ms"),
    (errors.CorruptLog("/f", 7, "torn"), DAMAGED, "/f is damaged at byte 7: torn; `ottla verify`"),
    (errors.CorruptBatch("torn"), DAMAGED, "not a valid batch: torn"),
    (errors.StorageFull("/f"), FAILED, "no space left for /f"),
    (errors.MissingDependency("x", "grpcio", "'ottla[server]'"), FAILED, "pip install 'ottla[server]'"),
    (Failure("in short", 3), MISSING, "in short"),
    (FileNotFoundError(2, "No such file or directory", "a.txt"), FAILED, "a.txt: No such file or directory"),
    (OSError("strange"), FAILED, "strange"),
    (RuntimeError("odd"), FAILED, "this should not happen (RuntimeError: odd)"),
]


@pytest.mark.parametrize(("error", "code", "says"), CASES, ids=[type(error).__name__ for error, _, _ in CASES])
def test_one_line_and_a_code(error: Exception, code: int, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        raise error

    assert ended(work) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("ottla: ")
    assert says in line


def test_without_an_error_the_code_is_the_commands_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(lambda: None) == OK
    assert ended(lambda: 5) == DAMAGED
    assert capsys.readouterr().err == ""

"""Every error carries facts, reads as one sentence and survives pickling."""

import copy
import inspect
import pickle
import re

import pytest

from ottla import errors
from ottla.errors import InvalidValue, MissingDependency, OttlaError, UnknownPartition

_SAMPLES = {"str": "deliveries", "int": 7, "float": 1.5, "object": "seven"}


def _all_errors(base: type[OttlaError] = OttlaError) -> list[type[OttlaError]]:
    return [base, *(below for child in base.__subclasses__() for below in _all_errors(child))]


def _with_facts() -> list[type[OttlaError]]:
    return [kind for kind in _all_errors() if "__init__" in vars(kind)]


def _sample(kind: type[OttlaError]) -> OttlaError:
    parameters = [p for p in inspect.signature(kind.__init__).parameters.values() if p.name != "self"]
    return kind(*(_SAMPLES[getattr(p.annotation, "__name__", p.annotation)] for p in parameters))


@pytest.mark.parametrize("kind", _with_facts())
def test_an_error_comes_out_of_pickling_as_it_went_in(kind: type[OttlaError]) -> None:
    error = _sample(kind)
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is kind
        assert str(again) == str(error)
        assert vars(again) == vars(error)


@pytest.mark.parametrize("kind", _with_facts())
def test_an_error_keeps_each_argument_as_a_fact_of_that_name(kind: type[OttlaError]) -> None:
    names = set(inspect.signature(kind.__init__).parameters) - {"self"}
    assert names
    assert names <= set(vars(_sample(kind)))


@pytest.mark.parametrize("kind", _with_facts())
def test_an_error_is_one_sentence_without_a_full_stop(kind: type[OttlaError]) -> None:
    sentence = str(_sample(kind))
    assert "\n" not in sentence
    assert not sentence.endswith(".")
    assert 20 < len(sentence) < 300


@pytest.mark.parametrize("kind", _all_errors())
def test_an_error_has_a_docstring(kind: type[OttlaError]) -> None:
    assert kind.__doc__


def _drawn_tree() -> dict[str, str]:
    """Each error in the module's docstring with the one it is drawn below."""
    parents: dict[str, str] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        drawn = re.match(r"    ([│├└─ ]*)([A-Z]\w+(?: · [A-Z]\w+)*)", line)
        if drawn:
            depth = len(drawn[1]) // 4
            del path[depth:]
            for name in drawn[2].split(" · "):
                parents[name] = path[-1] if path else ""
            path.append(drawn[2].split(" · ")[-1])
    return parents


def test_the_tree_in_the_docstring_is_the_tree_in_the_code() -> None:
    drawn = _drawn_tree()
    assert drawn.pop("OttlaError") == ""
    assert drawn == {kind.__name__: kind.__bases__[0].__name__ for kind in _all_errors()[1:]}


def test_a_wrong_value_is_also_a_value_error() -> None:
    with pytest.raises(ValueError, match="colour 'mauve' is not valid: choose red or blue"):
        raise InvalidValue("colour", "mauve", "choose red or blue")


def test_a_missing_package_is_also_an_import_error() -> None:
    with pytest.raises(ImportError, match="pip install 'ottla\\[polars\\]'"):
        raise MissingDependency("to_polars()", "polars", "'ottla[polars]'")


@pytest.mark.parametrize("value", [b"x" * 2**20, "x" * 2**20, ["x"] * 2**20, {"x" * 1000}, "two\nlines"])
def test_a_long_value_is_shown_short(value: object) -> None:
    sentence = str(InvalidValue("value", value, "be brief"))
    assert len(sentence) < 200
    assert "\n" not in sentence


def test_a_value_that_cannot_be_pickled_does_not_stop_its_error() -> None:
    for error in (InvalidValue("value", lambda: None, "no"), UnknownPartition("t", lambda: None, 4)):
        assert "<function" in str(pickle.loads(pickle.dumps(error)))


def test_an_error_keeps_its_notes() -> None:
    error = _sample(errors.CorruptLog)
    error.add_note("found by verify")
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["found by verify"]

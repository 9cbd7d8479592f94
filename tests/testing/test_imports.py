"""What `ottla.testing` needs, and who pays for it."""

import subprocess
import sys

import pytest

import ottla.testing
from ottla.errors import MissingDependency


def test_importing_ottla_imports_no_test_tools() -> None:
    script = "import sys, ottla, ottla.testing.crash; sys.exit(bool({'pytest', 'hypothesis'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize("name", ottla.testing.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(ottla.testing, name) is not None


@pytest.mark.parametrize(("name", "package"), [("EngineContract", "pytest"), ("LogMachine", "hypothesis")])
def test_a_missing_tool_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch, name: str, package: str) -> None:
    def missing(_: str) -> None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)

    monkeypatch.setattr(ottla.testing, "import_module", missing)
    with pytest.raises(MissingDependency, match=rf"ottla.testing.{name} needs the package '{package}': pip install"):
        getattr(ottla.testing, name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Wishes'"):
        ottla.testing.Wishes  # noqa: B018  (looking is what is tested)

"""`ottla version`."""

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of

import ottla
from ottla.cli.options import AsJson
from ottla.cli.output import show_json, show_text

EXAMPLES = ("ottla version --json",)

_PACKAGES = ("pyarrow", "google-crc32c", "grpcio", "pyspark")


def version(*, as_json: AsJson = False) -> None:
    """The version of ottla and of what it runs on."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    packages = {name: found for name in _PACKAGES if (found := _version(name)) is not None}
    if as_json:
        show_json({"ottla": ottla.__version__, "python": python, "system": platform.platform(), "packages": packages})
        return
    known = ", ".join(f"{name} {found}" for name, found in packages.items())
    show_text(f"ottla {ottla.__version__} ({python}, {known})")


def _version(package: str) -> str | None:
    try:
        return version_of(package)
    except PackageNotFoundError:
        return None

"""Every setting of a server is in its documentation."""

from pathlib import Path

import pytest

from ottla.server.config import SETTINGS, Setting

PAGE = Path(__file__).parents[2] / "docs" / "server.md"


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_it_has_a_row_with_all_its_names(setting: Setting) -> None:
    (row,) = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| `{setting.flag}` |")]
    assert f"`{setting.variable}`" in row
    assert f"`{setting.name}`" in row
    assert setting.seed in row

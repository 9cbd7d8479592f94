"""Every snippet of the README and the docs that is marked to be run prints what the text says it prints."""

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SNIPPET = re.compile(r"<!-- run -->\n```python\n(.*?)```\n(?:\nprints\n\n```\n(.*?)```\n)?", re.DOTALL)


def snippets() -> list[tuple[str, str, str]]:
    found = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for number, match in enumerate(SNIPPET.finditer(page.read_text(encoding="utf-8"))):
            found.append((f"{page.relative_to(ROOT)}#{number}", match[1], match[2] or ""))
    return found


@pytest.mark.parametrize(("code", "expected"), [s[1:] for s in snippets()], ids=[s[0] for s in snippets()])
def test_a_snippet_prints_what_the_page_says(code: str, expected: str, tmp_path: Path) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code.replace("/tmp/ottla-readme", str(tmp_path / "log")), "snippet", "exec"), {})
    assert printed.getvalue() == expected


def test_there_are_snippets() -> None:
    assert len(snippets()) >= 2

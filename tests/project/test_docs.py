"""What stands on the pages holds: code runs from an empty folder, output is as shown, links lead on."""

import ast
import re
import sys
from pathlib import Path

import pages as runner
import pytest
import torch
from generator.__main__ import pages as generated
from generator.examples import EXAMPLES

import chop
from chop.operators import BUILT_IN

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *sorted((DOCS / "tutorials").glob("*.md"))]
REFERENCE = DOCS / "reference"


def runnable(page):
    return bool(runner.blocks(page.read_text(encoding="utf-8")))


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] * (page.parent.name == "tutorials"))
        for page in PAGES
        if runnable(page)
    ],
    ids=lambda page: f"{page.parent.name}/{page.stem}",
)
def test_a_page_runs_from_an_empty_folder(page, tmp_path, one_thread):
    runner.run(page, tmp_path)


def test_the_tutorials_are_all_run():
    tutorials = list((DOCS / "tutorials").glob("*.md"))
    assert len(tutorials) >= 5
    assert all(runnable(page) for page in tutorials)


@pytest.mark.parametrize("page", sorted((DOCS / "tutorials").glob("*.md")), ids=lambda page: page.stem)
def test_blocks_can_be_pasted_into_an_interpreter(page):
    """There an empty line ends a function or a loop, and nothing else does."""
    for block in runner.blocks(page.read_text(encoding="utf-8")):
        if block.kind != "python" or block.file:
            continue
        lines = block.text.splitlines()
        for node in ast.parse(block.text).body:
            if hasattr(node, "body"):
                assert all(lines[node.lineno - 1 : node.end_lineno]), (
                    f"an empty line in {lines[node.lineno - 1]}"
                )
                assert not "".join(lines[node.end_lineno : node.end_lineno + 1]), lines[node.end_lineno]


PAGE = """
```python
# tool.py
def double(x):
    return 2 * x
```

```python
from tool import double
print("twice", double(1.005))
```

```text
twice 2.01
```

<!-- not run: it would end the world -->
```python
raise SystemExit
```

```sh
python -c "import tool; print(tool.double(2))"
rm -rf /
```

```text
4
```
"""


def test_blocks_are_saved_run_and_compared(tmp_path):
    page = tmp_path / "page.md"
    folder = tmp_path / "empty"
    folder.mkdir()
    page.write_text(PAGE)
    assert [block.kind for block in runner.blocks(PAGE)] == ["python", "python", "sh"]
    runner.run(page, folder)
    assert (folder / "tool.py").read_text().startswith("# tool.py")
    assert "tool" not in sys.modules


@pytest.mark.parametrize(
    ("shown", "said"),
    [("twice 2.5", "twice 2.01"), ("thrice 2.01", "twice 2.01"), ("twice", "twice 2.01"), ("x 0", "x 0.1")],
)
def test_other_output_is_noticed(shown, said):
    with pytest.raises(AssertionError, match=r"page\.md, line 7"):
        runner.compare(said, shown, "page.md, line 7")


def test_rounding_is_forgiven():
    runner.compare("a  1.0001e-3,\n b -2", "a 1e-3, b -2", "here")


def test_every_link_leads_somewhere():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")]:
        if "_build" in page.parts:
            continue
        for target in re.findall(r"\]\(([^)#\s]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_reference_is_up_to_date():
    for name, text in generated().items():
        assert (REFERENCE / name).read_text(encoding="utf-8") == text, (
            f"docs/reference/{name} is out of date: make docs"
        )


def test_every_operator_says_when_it_helps_and_has_a_picture():
    assert set(EXAMPLES) == {operator.name for operator in BUILT_IN}
    for operator in BUILT_IN:
        assert operator.helps
        assert operator.name in EXAMPLES[operator.name].text
        assert (REFERENCE / "operators" / f"{operator.name}.png").stat().st_size < 60_000


def test_every_public_name_is_in_the_python_reference():
    page = (REFERENCE / "api.md").read_text(encoding="utf-8")
    assert not {name for name in chop.__all__ if f"chop.{name}" not in page}


def test_pictures_of_the_pages_are_small():
    for picture in (DOCS / "tutorials" / "figures").iterdir():
        assert picture.stat().st_size < 150_000, picture.name

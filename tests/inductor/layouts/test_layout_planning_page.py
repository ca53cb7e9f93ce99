import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "layout-planning.md"


def test_the_worked_example_prints_what_the_page_says(capsys):
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (printed,) = re.findall(r"```text\n(.*?)```", PAGE.read_text(), re.DOTALL)
    exec(program, {})
    assert capsys.readouterr().out == printed

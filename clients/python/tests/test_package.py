"""What the installed package contains."""

import ast
import json
import os
import re
import subprocess
import sys
from importlib import metadata, resources
from pathlib import Path

import pytest
import ragwire


def test_the_version_is_that_of_the_wheel() -> None:
    assert ragwire.__version__ == metadata.version("ragwire")


def test_the_wheel_has_types_and_licence_texts() -> None:
    assert resources.files("ragwire").joinpath("py.typed").is_file()
    names = {file.name for file in metadata.files("ragwire") or []}
    assert {"LICENSE-MIT", "LICENSE-APACHE"} <= names


def test_the_wheel_has_the_readme_of_the_package() -> None:
    """The source distribution, from which it is built, has also that of the crate."""
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    assert str(metadata.metadata("ragwire").get_payload()).strip() == readme.strip()


def test_the_check_of_the_release_workflow_passes() -> None:
    command = [sys.executable, Path(__file__).parent / "smoke.py"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout.startswith(f"ragwire {ragwire.__version__} answers on Python")


def test_every_public_name_has_a_type_and_a_docstring() -> None:
    """As pyright sees the installed package."""
    bin = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--ignoreexternal", "--outputjson"]
    run = subprocess.run([*command, "--verifytypes", "ragwire"], env={**os.environ, "PATH": bin}, capture_output=True, text=True)
    report = json.loads(run.stdout)["typeCompleteness"]
    problems = [
        f"{symbol['name']}: {each['message']}"
        for symbol in report["symbols"]
        for each in symbol.get("diagnostics", ())
        if each["severity"] == "error"
    ]
    assert problems == []
    assert report["exportedSymbolCounts"]["withKnownType"] > 500
    public = {name: getattr(ragwire, name) for name in ragwire.__all__}
    assert [name for name, each in public.items() if isinstance(each, type) and not each.__doc__] == []


USE = Path(__file__).parent / "typed" / "use.py"


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_type_checkers_accept_an_application_and_find_its_mistakes(checker: str, tmp_path: Path) -> None:
    (tmp_path / "use.py").write_text(USE.read_text())
    options = ["--strict"] if checker == "mypy" else ["--pythonpath", sys.executable]
    run = subprocess.run(
        [sys.executable, "-m", checker, *options, "use.py"], cwd=tmp_path, capture_output=True, text=True
    )
    found = {int(line) for line in re.findall(r"use\.py:(\d+)(?::\d+)?(?: -|:) error", run.stdout)}
    wrong = {number for number, line in enumerate(USE.read_text().splitlines(), 1) if line.endswith("# wrong")}
    assert found == wrong, run.stdout


ADAPTERS = ["langgraph", "llama_index", "haystack", "openai"]


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_an_adapter_without_its_package_names_the_extra(adapter: str) -> None:
    script = f"""
import sys
sys.modules[{adapter!r}] = None
try:
    import ragwire.{adapter}
except ModuleNotFoundError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    needed = run.stdout.strip()
    assert needed.startswith(f"ragwire.{adapter} needs {adapter}"), run.stdout
    assert needed.endswith(f"pip install 'ragwire[{adapter.replace('_', '-')}]'")


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_an_adapter_has_at_most_60_lines_of_code(adapter: str) -> None:
    """Without comments, docstrings and empty lines: an application can write another one itself."""
    source = resources.files("ragwire").joinpath(f"{adapter}.py").read_text()
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, documented) and ast.get_docstring(node)]
    words = {line for node in nodes for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)}
    lines = enumerate((line.strip() for line in source.splitlines()), 1)
    code = [line for number, line in lines if line and not line.startswith("#") and number not in words]
    assert 0 < len(code) <= 60

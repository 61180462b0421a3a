"""What the installed package contains."""

import ast
from importlib import metadata, resources

import pytest
import ragwire


def test_the_version_is_that_of_the_wheel() -> None:
    assert ragwire.__version__ == metadata.version("ragwire")


def test_the_wheel_has_types_and_licence_texts() -> None:
    assert resources.files("ragwire").joinpath("py.typed").is_file()
    names = {file.name for file in metadata.files("ragwire") or []}
    assert {"LICENSE-MIT", "LICENSE-APACHE"} <= names


@pytest.mark.parametrize("adapter", ["langgraph", "llama_index", "haystack", "openai"])
def test_an_adapter_has_at_most_60_lines_of_code(adapter: str) -> None:
    """Without comments, docstrings and empty lines: an application can write another one itself."""
    source = resources.files("ragwire").joinpath(f"{adapter}.py").read_text()
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, documented) and ast.get_docstring(node)]
    words = {line for node in nodes for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)}
    lines = enumerate((line.strip() for line in source.splitlines()), 1)
    code = [line for number, line in lines if line and not line.startswith("#") and number not in words]
    assert 0 < len(code) <= 60

"""`help()` shows every public name, its parameters, and their types and defaults."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

import ragwire
from test_package import ADAPTERS

DESCRIPTORS = (staticmethod, classmethod, property)


def described(path: str, thing: Any) -> Iterator[tuple[str, Any]]:
    """Yields a function, or a class and everything public that ragwire defines in it."""
    yield path, thing
    if not isinstance(thing, type):
        return
    for name in {name for base in thing.__mro__ if base.__module__.startswith("ragwire") for name in vars(base)}:
        member = inspect.getattr_static(thing, name)
        # The fields of data classes are in the documentation of the class.
        if name.startswith("_") or inspect.ismemberdescriptor(member):
            continue
        if callable(member) or inspect.isdatadescriptor(member) or isinstance(member, DESCRIPTORS):
            yield f"{path}.{name}", getattr(thing, name)


def public() -> Iterator[tuple[str, Any]]:
    for name in ragwire.__all__:
        thing = getattr(ragwire, name)
        if inspect.isroutine(thing) or isinstance(thing, type):
            yield from described(f"ragwire.{name}", thing)
    for adapter in ADAPTERS:
        module = importlib.import_module(f"ragwire.{adapter}")
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if not name.startswith("_") and function.__module__ == module.__name__:
                yield f"ragwire.{adapter}.{name}", function


PUBLIC = dict(public())


def documentation(thing: Any) -> str:
    doc: str = inspect.getdoc(thing) or ""
    if isinstance(thing, type) and "__init__" in vars(thing):
        doc += "\n" + (inspect.getdoc(thing.__init__) or "")
    return doc


def parameters(thing: Any) -> list[inspect.Parameter]:
    if not callable(thing) or (isinstance(thing, type) and issubclass(thing, Exception)):
        # The exceptions that an application raises itself are in the test below.
        return []
    try:
        found = inspect.signature(thing).parameters.values()
    except ValueError:
        # A `TypedDict` or a union, whose members have types of their own.
        return []
    return [each for each in found if each.name != "self"]


def test_all_public_names_are_looked_at() -> None:
    assert len(PUBLIC) > 100
    assert {"ragwire.Turn.start", "ragwire.Journal.bytes", "ragwire.Client.ask", "ragwire.langgraph.run"} <= PUBLIC.keys()


@pytest.mark.parametrize("path", PUBLIC)
def test_a_public_name_has_documentation_that_names_its_parameters(path: str) -> None:
    thing = PUBLIC[path]
    doc = documentation(thing)
    assert doc.strip()
    for parameter in parameters(thing):
        name = parameter.name
        assert re.search(rf"^ +{name}: \S", doc, re.MULTILINE), f"{name} is not described"
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        is_typed = parameter.annotation is not parameter.empty or re.search(rf"\b{name}: \S", doc.partition("\nTypes:\n")[2])
        assert is_typed, f"{name} has no type"


@pytest.mark.parametrize("error", [ragwire.Failure, ragwire.Refusal])
def test_an_exception_that_applications_raise_describes_its_arguments(error: type[Exception]) -> None:
    for parameter in inspect.signature(error).parameters.values():
        assert re.search(rf"^ +{parameter.name}: \S", documentation(error), re.MULTILINE), parameter.name

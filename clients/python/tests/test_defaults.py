"""The defaults in the signatures, which editors show, are those of Rust."""

from __future__ import annotations

import ast
import inspect
from importlib import resources
from typing import Any

import pytest

import ragwire
from ragwire import _ragwire

STUB = ast.parse(resources.files("ragwire").joinpath("_ragwire.pyi").read_text())


def value(node: ast.expr) -> Any:
    return eval(compile(ast.Expression(node), "stub", "eval"), {})


def stubbed(name: str, method: str) -> dict[str, Any]:
    """Returns the keyword arguments of a method in the stub, with their defaults."""
    (found,) = [node for node in STUB.body if isinstance(node, ast.ClassDef) and node.name == name]
    (function,) = [node for node in found.body if isinstance(node, ast.FunctionDef) and node.name == method]
    pairs = zip(function.args.kwonlyargs, function.args.kw_defaults)
    return {argument.arg: value(default) for argument, default in pairs if default is not None}


SIGNATURES: dict[str, list[dict[str, Any]]] = {
    "Endpoints": [{name: each.default for name, each in inspect.signature(ragwire.Endpoints).parameters.items()}],
    "Turn": [stubbed("Turn", "start")],
    "Journal": [stubbed("Journal", "__new__"), stubbed("Journal", "redis")],
    "Sessions": [stubbed("Sessions", each) for each in ("__new__", "open", "redis")],
    "TurnGroup": [stubbed("TurnGroup", "__new__")],
}


def test_records_have_the_defaults_of_sessions() -> None:
    for name, parameter in inspect.signature(ragwire.Endpoints.record_limits).parameters.items():
        assert parameter.default == _ragwire.defaults()["Sessions"][name]


def test_every_class_with_defaults_is_compared() -> None:
    assert SIGNATURES.keys() == _ragwire.defaults().keys()


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_signature_has_the_defaults_of_rust(name: str) -> None:
    seen = set()
    for signature in SIGNATURES[name]:
        for option, default in _ragwire.defaults()[name].items():
            if option in signature:
                assert signature[option] == default, option
                seen.add(option)
    assert seen == _ragwire.defaults()[name].keys()


CALLS: list[tuple[Any, str, tuple[Any, ...], list[str]]] = [
    (ragwire.Journal, "Journal", (), ["__new__"]),
    (ragwire.Journal.redis, "Journal", ("redis://127.0.0.1",), ["redis"]),
    (ragwire.Sessions, "Sessions", (), ["__new__"]),
    (ragwire.Sessions.open, "Sessions", ("sessions",), ["open"]),
    (ragwire.Sessions.redis, "Sessions", ("redis://127.0.0.1",), ["redis"]),
    (ragwire.TurnGroup, "TurnGroup", (), ["__new__"]),
]


@pytest.mark.parametrize(("call", "name", "arguments", "method"), CALLS)
def test_every_option_of_the_stub_is_accepted_and_no_other(
    call: Any, name: str, arguments: tuple[Any, ...], method: list[str]
) -> None:
    options = stubbed(name, method[0])
    assert options
    call(*arguments, **options)
    with pytest.raises(ragwire.OptionError) as raised:
        call(*arguments, unknown=1)
    known = str(raised.value).partition("known: ")[2].removesuffix(" (invalid_option)").split(", ")
    assert sorted(known) == sorted(options)


async def test_every_option_of_a_turn_is_accepted_and_no_other() -> None:
    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        await sink.text("Forty-two.")

    options = stubbed("Turn", "start")
    turn = await ragwire.Turn.start(answer, **options).commit()
    assert (await turn.collect())["text"] == "Forty-two."
    with pytest.raises(ragwire.OptionError) as raised:
        ragwire.Turn.start(answer, unknown=1)  # type: ignore[call-arg]
    known = str(raised.value).partition("known: ")[2].removesuffix(" (invalid_option)").split(", ")
    assert sorted(known) == sorted(options)

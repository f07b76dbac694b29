"""Does it look like a provider: its methods, its name, its schemas, its answers to tool calls."""

import pytest

from holdfast.memory.config import declared
from holdfast.memory.loading import checked
from holdfast.testing.provider_stand import Stand, check

LONGEST_NAME = 64


@check("shape", "It has the methods and a stable name, and its schemas are well formed")
def test_shape(stand: Stand) -> None:
    provider, again = stand.case.make(), stand.case.make()
    try:
        checked(provider.name, provider)
        assert provider.name == again.name, "two of them have two names; what is owed is kept by the name"
        assert len(provider.name) <= LONGEST_NAME, "a name is short"
        for schema in provider.get_tool_schemas():
            function = schema.get("function", schema)
            assert isinstance(function.get("name"), str), f"a tool without a name: {schema}"
            assert isinstance(function.get("parameters", {}), dict), f"{function['name']}: no parameters"
        keys = [each.key for each in declared(provider) if not each.when]
        assert len(keys) == len(set(keys)), f"a key is declared twice: {keys}"
    finally:
        provider.shutdown()
        again.shutdown()


@check("tools", "A tool call with wrong arguments gets an answer in text, or an error, soon")
def test_tools(stand: Stand) -> None:
    memory = stand.manager()
    schemas = memory.get_tool_schemas()
    if not schemas:
        pytest.skip("it has no tools")
    for schema in schemas:
        name = schema.get("function", schema)["name"]
        for arguments in ({}, {"no_such_argument": ["?"]}):
            try:
                answer = memory.handle_tool_call(name, arguments, timeout=20.0)
            except TimeoutError:
                pytest.fail(f"{name} did not come back in 20 s")
            except Exception:  # noqa: BLE001, S112 - it may refuse in its own way
                continue
            assert isinstance(answer, str), f"{name} returned {type(answer).__name__}, not text"

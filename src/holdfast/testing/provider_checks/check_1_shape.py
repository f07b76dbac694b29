"""Checks the shape of a provider: its methods, its name, its schemas, its answers to tool calls."""

import pytest

from holdfast.core.errors import ProviderLate
from holdfast.memory.bounds import BLOCK_CHARACTERS, bound_text, check_schemas
from holdfast.memory.config import declared_fields
from holdfast.providers.loader import check_provider
from holdfast.testing.provider_harness import ProviderHarness, check

MAX_NAME_LENGTH = 64


@check("shape", "It has the methods and a stable name, and its schemas are well formed")
def test_shape(harness: ProviderHarness) -> None:
    provider, again = harness.case.make(), harness.case.make()
    try:
        check_provider(provider.name, provider)
        assert provider.name == again.name, "two of them have two names; what is owed is kept by the name"
        assert len(provider.name) <= MAX_NAME_LENGTH, "a name is short"
        offered = check_schemas(provider.get_tool_schemas())
        assert not offered.left_out, f"tools that would be left out: {'; '.join(offered.left_out)}"
        for function in offered.functions:
            assert isinstance(function.get("parameters", {}), dict), f"{function['name']}: no parameters"
        block = bound_text(provider.system_prompt_block(), BLOCK_CHARACTERS, "system_prompt_block")
        assert not block.cut, f"its system prompt block has more than {BLOCK_CHARACTERS} characters"
        keys = [each.key for each in declared_fields(provider) if not each.when]
        assert len(keys) == len(set(keys)), f"a key is declared twice: {keys}"
    finally:
        provider.shutdown()
        again.shutdown()


@check("tools", "A tool call with wrong arguments gets an answer in text, or an error, soon")
def test_tools(harness: ProviderHarness) -> None:
    memory = harness.manager()
    schemas = memory.get_tool_schemas()
    if not schemas:
        pytest.skip("it has no tools")
    for schema in schemas:
        name = schema.get("function", schema)["name"]
        for arguments in ({}, {"no_such_argument": ["?"]}):
            try:
                answer = memory.handle_tool_call(name, arguments, timeout=20.0)
            except ProviderLate:
                pytest.fail(f"{name} did not come back in 20 s")
            except Exception:  # noqa: BLE001, S112 - it may refuse in its own way
                continue
            assert isinstance(answer, str), f"{name} returned {type(answer).__name__}, not text"

"""Child processes that never outlive their test."""

from collections.abc import Iterator

import pytest

from tests.process.children import Child, StartChild


@pytest.fixture
def start_child() -> Iterator[StartChild]:
    children: list[Child] = []

    def start(script: str) -> Child:
        children.append(Child(script))
        return children[-1]

    yield start
    for child in children:
        child.close()

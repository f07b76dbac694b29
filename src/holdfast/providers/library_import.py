"""Imports a library whose telemetry is only switched off by environment variables that it reads at import."""

import importlib
import os
from collections.abc import Mapping
from typing import Any


def import_library(name: str, wanted: Mapping[str, str]) -> Any:  # noqa: ANN401 - libraries without types
    """Import it with these variables; the environment is restored afterwards."""
    environment = os.environ  # noqa: TID251 - the libraries have no other way
    before = {variable: environment.get(variable) for variable in wanted}
    environment.update(wanted)
    try:
        return importlib.import_module(name)
    finally:
        for variable, value in before.items():
            if value is None:
                environment.pop(variable, None)
            else:
                environment[variable] = value

"""Hatchling's hook: the wheel and the source archive carry the web page's libraries as npm delivered them.

They are in a folder that git ignores. `make sync` makes it; a build from a fresh clone makes it itself.
"""

import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PageLibraries(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's signature
        """Install what is missing, and refuse libraries that somebody changed."""
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        from tools.bootstrap import PAGE_LIBRARIES, page_is_current
        from tools.page_libraries import altered, install

        if not page_is_current():
            install()
        if wrong := altered():
            raise RuntimeError(
                f"{PAGE_LIBRARIES} is not as it was installed: {', '.join(wrong)}. "
                "Remove the folder and build again."
            )

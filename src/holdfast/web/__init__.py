"""The web page and the HTTP API: parse, one call on the host, render its events. Read `contract.py` first."""

from holdfast.web.app import build_app
from holdfast.web.contract import WebParts

__all__ = ["WebParts", "build_app"]

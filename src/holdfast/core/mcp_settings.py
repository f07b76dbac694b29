"""The settings of Holdfast as an MCP server: what it offers to other agents, and where."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator

from holdfast.core.secret import Secret
from holdfast.core.setting_checks import listening_address, secret_text, split_list

McpOffered = Literal["sessions", "memory", "remember", "forget", "ask"]
READING: tuple[McpOffered, ...] = ("sessions", "memory")


class McpSettings(BaseModel):
    """Holdfast as an MCP server, `holdfast mcp serve`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    offer: Annotated[
        tuple[McpOffered, ...],
        BeforeValidator(lambda given: tuple(split_list(given)) if isinstance(given, str) else given),
    ] = Field(
        default=READING,
        description="what other agents may do: sessions, memory (both read), remember, forget, ask",
    )
    host: Annotated[str, AfterValidator(listening_address)] = Field(
        default="127.0.0.1", description="the address to listen on with --http"
    )
    port: int = Field(default=8485, ge=0, le=65_535, description="the port to listen on; 0: a free one")
    token: Annotated[Secret, PlainValidator(secret_text)] = Field(
        default=Secret(""),
        description="the token of clients; empty: created at the first start, kept in the data folder",
    )

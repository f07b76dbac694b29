"""The configuration of a provider: the fields that it declares, and their values.

A provider lists its fields in `get_config_schema()`. `resolve_config` finds a value for each field, and
`initialize` receives them as `config`. `providers/config_store.py` keeps them on disk, with secrets in a
file of their own.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from holdfast.core.secret import Secret

YES = ("1", "true", "yes", "on")
NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ConfigField:
    """One configuration field of a provider."""

    key: str
    description: str = ""
    secret: bool = False
    required: bool = False
    default: str = ""
    choices: tuple[str, ...] = ()
    env_var: str = ""
    url: str = ""
    """The web page where a person gets the value."""
    when: Mapping[str, str] = field(default_factory=dict)
    """The field is active only when the earlier fields named here have these values."""

    def problem(self, value: str) -> str | None:
        """The reason why a value is invalid; None when it is valid."""
        if not value.isprintable():
            return f"{self.key} has a control character in it"
        if self.choices and value and value not in self.choices:
            return f"{self.key} must be one of {', '.join(self.choices)}"
        return None


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    """The values of the fields of a provider. Secrets stay masked until `secret(key).reveal()`."""

    texts: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, Secret] = field(default_factory=dict)

    def text(self, key: str, default: str = "") -> str:
        return self.texts.get(key) or default

    def secret(self, key: str) -> Secret:
        return self.secrets.get(key, Secret(""))

    def flag(self, key: str, default: bool = False) -> bool:
        value = self.texts.get(key, "")
        return value.strip().lower() in YES if value else default

    def number(self, key: str, default: float) -> float:
        """The value as a number; raises a ValueError that names the key when it is not a number."""
        value = self.texts.get(key, "")
        try:
            return float(value) if value else default
        except ValueError:
            raise ValueError(f"{key} must be a number, not {value!r}") from None

    def revealed(self) -> dict[str, str]:
        """All values in plain text, for a client that accepts nothing else."""
        return {**self.texts, **{key: value.reveal() for key, value in self.secrets.items()}}


def declared_fields(provider: object) -> list[ConfigField]:
    """The fields that a provider declares; empty when it has no `get_config_schema`."""
    schema = getattr(provider, "get_config_schema", None)
    return parse_schema(schema()) if schema is not None else []


def parse_schema(schema: object) -> list[ConfigField]:
    """The fields of a schema; raises a ValueError that names the invalid entry."""
    if not isinstance(schema, Sequence) or isinstance(schema, str):
        raise ValueError("get_config_schema should return a list of fields")  # noqa: TRY004 - a plugin's value
    return [_field(entry) for entry in schema]


def _field(entry: object) -> ConfigField:
    key = entry.get("key") if isinstance(entry, Mapping) else None
    if not isinstance(entry, Mapping) or not isinstance(key, str) or not key:
        raise ValueError(f"a field of get_config_schema needs a 'key': {entry!r:.80}")
    return ConfigField(
        key=key,
        description=str(entry.get("description") or ""),
        secret=bool(entry.get("secret")),
        required=bool(entry.get("required")),
        default=as_text(entry.get("default")),
        choices=tuple(as_text(each) for each in entry.get("choices") or ()),
        env_var=str(entry.get("env_var") or ""),
        url=str(entry.get("url") or ""),
        when={str(name): as_text(value) for name, value in (entry.get("when") or {}).items()},
    )


def as_text(value: object) -> str:
    """A schema value as text: all configuration values are text."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def active_fields(fields: Iterable[ConfigField], values: Mapping[str, str]) -> Iterator[ConfigField]:
    """The fields that are active with these values. Values may be added during the iteration."""
    for each in fields:
        if all(values.get(name, "") == wanted for name, wanted in each.when.items()):
            yield each


def resolve_config(
    fields: Sequence[ConfigField],
    stored: Mapping[str, str] = NOTHING,
    environment: Mapping[str, str] = NOTHING,
) -> ProviderConfig:
    """A value for each active field: its environment variable, else the stored value, else its default."""
    values: dict[str, str] = {}
    secrets: dict[str, Secret] = {}
    for each in active_fields(fields, values):
        given = (environment.get(each.env_var) if each.env_var else "") or stored.get(each.key)
        if each.secret:
            secrets[each.key] = Secret((given or each.default).strip())
        else:
            values[each.key] = given or each.default
    return ProviderConfig(values, secrets)


def missing_fields(fields: Sequence[ConfigField], config: ProviderConfig) -> list[ConfigField]:
    """The required fields that have no value."""
    return [
        each
        for each in active_fields(fields, config.texts)
        if each.required and not (config.secret(each.key) if each.secret else config.text(each.key))
    ]


def config_problems(fields: Sequence[ConfigField], config: ProviderConfig) -> list[str]:
    """Descriptions of all invalid values, without secrets."""
    values = config.revealed()
    found = (each.problem(values.get(each.key, "")) for each in active_fields(fields, config.texts))
    return [problem for problem in found if problem]

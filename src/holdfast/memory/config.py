"""A provider's configuration: the fields it declares, and the values it gets.

A provider lists its fields with `get_config_schema()`; `resolve` finds a value for each, and `initialize`
receives them as `config`. `config_store.py` keeps them on disk, secrets apart from the rest.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from holdfast.core.secret import Secret

YES = ("1", "true", "yes", "on")
NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ConfigField:
    """One thing a provider must or may be told."""

    key: str
    description: str = ""
    secret: bool = False
    required: bool = False
    default: str = ""
    choices: tuple[str, ...] = ()
    env_var: str = ""
    url: str = ""
    """Where a person gets the value."""
    when: Mapping[str, str] = field(default_factory=dict)
    """Values of fields before this one, with which alone it counts."""

    def problem(self, value: str) -> str | None:
        """What is wrong with a value, in words."""
        if not value.isprintable():
            return f"{self.key} has a control character in it"
        if self.choices and value and value not in self.choices:
            return f"{self.key} must be one of {', '.join(self.choices)}"
        return None


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    """The values of a provider's fields. Secrets stay masked until `secret(key).reveal()`."""

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
        """The value as a number; raises ValueError, with the key, for what is none."""
        value = self.texts.get(key, "")
        try:
            return float(value) if value else default
        except ValueError:
            raise ValueError(f"{key} must be a number, not {value!r}") from None

    def revealed(self) -> dict[str, str]:
        """Every value in plain text: for a client that takes nothing else."""
        return {**self.texts, **{key: value.reveal() for key, value in self.secrets.items()}}


def declared(provider: object) -> list[ConfigField]:
    """The fields that a provider declares; none for one that doesn't know of them."""
    schema = getattr(provider, "get_config_schema", None)
    return fields_of(schema()) if schema is not None else []


def fields_of(schema: object) -> list[ConfigField]:
    """The fields that a schema declares; raises ValueError that says which entry is wrong."""
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
        default=plain(entry.get("default")),
        choices=tuple(plain(each) for each in entry.get("choices") or ()),
        env_var=str(entry.get("env_var") or ""),
        url=str(entry.get("url") or ""),
        when={str(name): plain(value) for name, value in (entry.get("when") or {}).items()},
    )


def plain(value: object) -> str:
    """A value of a schema as text: configuration is text throughout."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def counting(fields: Iterable[ConfigField], values: Mapping[str, str]) -> Iterator[ConfigField]:
    """The fields that count with these values, which may grow meanwhile: `when` looks at those before."""
    for each in fields:
        if all(values.get(name, "") == wanted for name, wanted in each.when.items()):
            yield each


def resolve(
    fields: Sequence[ConfigField],
    stored: Mapping[str, str] = NOTHING,
    environment: Mapping[str, str] = NOTHING,
) -> ProviderConfig:
    """A value for each field that counts: from its variable, else as stored, else its default."""
    values: dict[str, str] = {}
    secrets: dict[str, Secret] = {}
    for each in counting(fields, values):
        given = (environment.get(each.env_var) if each.env_var else "") or stored.get(each.key)
        if each.secret:
            secrets[each.key] = Secret((given or each.default).strip())
        else:
            values[each.key] = given or each.default
    return ProviderConfig(values, secrets)


def missing(fields: Sequence[ConfigField], config: ProviderConfig) -> list[ConfigField]:
    """The required fields that have no value."""
    return [
        each
        for each in counting(fields, config.texts)
        if each.required and not (config.secret(each.key) if each.secret else config.text(each.key))
    ]


def problems(fields: Sequence[ConfigField], config: ProviderConfig) -> list[str]:
    """What is wrong with the values, in words; no secret is in them."""
    values = config.revealed()
    found = (each.problem(values.get(each.key, "")) for each in counting(fields, config.texts))
    return [problem for problem in found if problem]

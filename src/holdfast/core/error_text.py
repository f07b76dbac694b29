"""The words of an exception, limited in size, for the store, for events, for HTTP and for the log.

The code of others (a provider, a tool, a chat adapter, a model) may raise an exception with any text, of any
length, or one whose text can't be had at all.
"""

from holdfast.core.messages import storable

ERROR_CHARACTERS = 4_000


def error_text(error: BaseException) -> str:
    """The name of the exception's type and its words."""
    said, name = error_words(error), type(error).__name__
    return name if said == name else f"{name}: {said}"


def error_words(error: BaseException) -> str:
    """The words of the exception; the name of its type when it has none."""
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - its `__str__` is foreign code, too
        said = ""
    return cut_words(said) or type(error).__name__


def cut_words(text: str, most: int = ERROR_CHARACTERS) -> str:
    """The text as every store takes it; a longer one is cut and says so."""
    if len(text) <= most:
        return storable(text)
    return f"{storable(text[:most])} [cut here: {len(text) - most} more characters]"

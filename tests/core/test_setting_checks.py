"""Settings that are texts with a form: what has it is taken, what has not is refused with what is right."""

import pytest

from holdfast import Settings
from holdfast.core.errors import SettingsInvalid
from holdfast.wiring import load_settings

WRONG = [
    ("TOOLS_ALLOW", '["nonsense"]', "KIND:PATTERN"),
    ("TOOLS_ALLOW", '["command: "]', "KIND:PATTERN"),
    ("TOOLS_ALLOW", '["command:ls", "rm -rf:*"]', "KIND:PATTERN"),
    ("TOOLS_ALLOW", '["comand:git *"]', "is 'command' meant?"),
    ("TOOLS_ALLOW", '["comand:git *"]', "command, read, write, fetch or SERVER__TOOL"),
    ("TOOLS_ALLOW", '["*:*"]', "command, read, write, fetch or SERVER__TOOL"),
    ("TOOLS_ALLOW", '["Command:ls"]', "is 'command' meant?"),
    ("TOOLS_ALLOW", '["read_file:*"]', "command, read, write, fetch or SERVER__TOOL"),
    ("TOOLS_ALLOW", '["write:notes/*"]', "a whole path"),
    ("TOOLS_ALLOW", '["read:~/notes/*"]', "a whole path"),
    ("TOOLS_ALLOW", '["fetch:example.org/*"]', "http://"),
    ("TOOLS_WORKSPACE", "/tmp/a\nb", "control characters"),
    ("TOOLS_SKILLS_FOLDER", "a\tb", "control characters"),
    ("MEMORY_PLUGINS", "a\x1bb", "control characters"),
    ("MEMORY_PROVIDERS", "local, some thing", "module:Class"),
    ("MEMORY_PROVIDERS", "hermes:", "hermes:FOLDER"),
    ("HOST_TIME_ZONE", "Mars Base", "such as Europe/Berlin"),
    ("HOST_TIME_ZONE", "/etc/localtime", "such as Europe/Berlin"),
    ("HOST_TIME_ZONE", "+01:00", "such as Europe/Berlin"),
    ("MODEL_NAME", "gpt\n5", "control characters"),
    ("MODEL_BASE_URL", "localhost:1234", "http://HOST:PORT"),
    ("STORE_URL", "mysql://host/db", "sqlite:///PATH"),
    ("STORE_URL", "sqlite://relative.db", "four slashes"),
    ("STORE_URL", "/var/lib/holdfast.db", "sqlite:///PATH"),
    ("WEB_HOST", "127.0.0.1:8484", "an address or a name"),
    ("WEB_HOST", "999.1.1.1", "an address or a name"),
    ("WEB_HOST", "", "an address or a name"),
    ("WEB_ALLOWED_HOSTS", "https://example.org", "without a port or a path"),
    ("WEB_ALLOWED_HOSTS", "example.org:443", "without a port or a path"),
    ("WEB_ALLOWED_HOSTS", "*", "without a port or a path"),
    ("WEB_ALLOWED_ORIGINS", "example.org", "https://NAME"),
    ("WEB_ALLOWED_ORIGINS", "https://example.org/page", "without a path"),
    ("WEB_ALLOWED_ORIGINS", "*", "https://NAME"),
    ("WEB_TRUSTED_PROXIES", "localhost", "an address or a network"),
    ("WEB_TRUSTED_PROXIES", "10.0.0.1/8", "an address or a network"),
    ("WEB_TRUSTED_PROXIES", "*", "an address or a network"),
    ("WEB_TRUSTED_PROXIES", "0.0.0.0/0", "makes strangers proxies"),
    ("WEB_TRUSTED_PROXIES", "127.0.0.1, ::/0", "makes strangers proxies"),
    ("WEB_TRUSTED_PROXIES", "0.0.0.0/1, 128.0.0.0/1", "makes strangers proxies"),
    ("WEB_ROOT_PATH", "holdfast", "like /holdfast"),
    ("WEB_ROOT_PATH", "/a/../b", "like /holdfast"),
    ("WEB_ROOT_PATH", "/a b", "like /holdfast"),
    ("WEB_ROOT_PATH", "//evil.example", "like /holdfast"),
    ("WEB_ROOT_PATH", "/api", "paths of the API"),
    ("WEB_ROOT_PATH", "/v1/x", "paths of the API"),
]
RIGHT = [
    ("TOOLS_ALLOW", '["command:git status*", "write:/home/me/*", "read:*.txt"]'),
    ("TOOLS_ALLOW", '["fetch:https://docs.example/*", "fetch:*", "my-notes__*:*", "notes__read_a:{*}"]'),
    ("MEMORY_PROVIDERS", "local, my_package.memory:Provider, hermes:/some/folder with/space, acme-memory"),
    ("STORE_URL", "sqlite:////var/lib/holdfast.db"),
    ("STORE_URL", "postgresql://me:secret@host/db"),
    ("STORE_URL", "postgresql:///db"),
    ("HOST_TIME_ZONE", "America/Argentina/Buenos_Aires"),
    ("HOST_TIME_ZONE", "Etc/GMT+5"),
    ("WEB_HOST", "::1"),
    ("WEB_HOST", "localhost"),
    (
        "WEB_ALLOWED_HOSTS",
        "example.org, my_box, 192.0.2.1, [2001:db8::1], 2001:db8::2, xn--bcher-kva.example",
    ),
    ("WEB_ALLOWED_ORIGINS", "http://localhost:3000, https://example.org/"),
    ("WEB_TRUSTED_PROXIES", "127.0.0.1, ::1, 10.0.0.0/8, fd00::/8, fc00::/7"),
    ("WEB_ROOT_PATH", "/holdfast/"),
    ("WEB_ROOT_PATH", "/apiary"),
    ("WEB_ROOT_PATH", "/"),
    ("MODEL_NAME", "anthropic/claude: 4"),
]


@pytest.mark.parametrize(("name", "value", "said"), WRONG)
def test_a_text_without_its_form_is_refused_with_what_is_right(name: str, value: str, said: str) -> None:
    with pytest.raises(SettingsInvalid) as refused:
        load_settings({f"HOLDFAST_{name}": value})
    assert said in str(refused.value)
    assert f"HOLDFAST_{name}" in str(refused.value)


@pytest.mark.parametrize(("name", "value"), RIGHT)
def test_a_text_with_its_form_is_taken(name: str, value: str) -> None:
    assert isinstance(load_settings({f"HOLDFAST_{name}": value}), Settings)


def test_a_password_in_a_wrong_address_is_not_repeated() -> None:
    with pytest.raises(SettingsInvalid) as refused:
        load_settings({"HOLDFAST_STORE_URL": "mysql://me:hunter22@host/db"})
    assert "hunter22" not in str(refused.value)

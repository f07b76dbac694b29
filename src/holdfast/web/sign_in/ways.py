"""`SignInWays`: what this server offers besides the token, built once for all requests."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from holdfast.core.contract import Clock
from holdfast.core.settings import WebSettings
from holdfast.host import SessionHost
from holdfast.web.sign_in.accounts import AccountSignIns
from holdfast.web.sign_in.attempts import Attempts
from holdfast.web.sign_in.oidc_flow import OidcFlow
from holdfast.web.sign_in.oidc_issuer import require_library
from holdfast.web.sign_in.proxied_accounts import ProxiedAccounts


@dataclass(frozen=True, slots=True)
class SignInWays:
    """The parts of signing in."""

    sign_ins: AccountSignIns
    attempts: Attempts
    oidc: OidcFlow | None
    proxied: ProxiedAccounts

    @property
    def oidc_host(self) -> str:
        """The issuer's name for a person; empty when there is none."""
        return "" if self.oidc is None else urlsplit(self.oidc.issuer).hostname or ""


def sign_in_ways(settings: WebSettings, clock: Clock, host: SessionHost) -> SignInWays:
    """What the settings ask for. Raises when a library for it is not installed."""
    oidc = None
    if settings.oidc_issuer:
        require_library()
        oidc = OidcFlow(settings, clock)
    made = settings.create_users
    return SignInWays(
        AccountSignIns(host.accounts, create_users=made),
        Attempts(clock),
        oidc,
        ProxiedAccounts(host.accounts, clock, create_users=made),
    )

"""The paths that are asked by whoever is not signed in yet, or not any more: they need no token."""

CALLBACK = "/api/sign-in/oidc/callback"
SIGN_IN_PATHS = frozenset(
    {"/api/sign-in/ways", "/api/sign-in/password", "/api/sign-in/oidc", CALLBACK, "/api/sign-out"}
)

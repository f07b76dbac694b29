"""Ways to sign in besides the token: a password, a proxy's header, OpenID Connect."""

"""One file per mechanism, one proof beside it, one registry."""

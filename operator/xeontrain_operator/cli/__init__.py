"""The `xeontrain` command."""

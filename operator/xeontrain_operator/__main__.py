"""`python -m xeontrain_operator` is the `xeontrain` command."""

from xeontrain_operator.cli.main import app

app(prog_name="xeontrain")

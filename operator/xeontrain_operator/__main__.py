"""`python -m xeontrain_operator` is the `xeontrain` command."""

from __future__ import annotations

import io
import signal
import sys


def main() -> None:
    """Run the command.

    Its libraries take a second or more to load: until then Ctrl-C ends the process without a word, as it does
    with any program, rather than with a traceback of whatever was being loaded.
    """
    python_s_own = signal.signal(signal.SIGINT, signal.SIG_DFL)
    from xeontrain_operator.cli.main import app

    # Ignored from the start, as in a shell's background, it stays ignored.
    signal.signal(signal.SIGINT, python_s_own)
    _say_it_in_any_locale()
    app(prog_name="xeontrain")


def _say_it_in_any_locale() -> None:
    """A letter that the locale cannot write (LANG=C) becomes an escape, not a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    main()

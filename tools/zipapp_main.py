"""`__main__.py` of the launcher's zip file: process 1 in an image of a user's own.

`python3 launcher.pyz -- COMMAND [ARGUMENT...]` is the launcher; `python3 launcher.pyz rank ...` is the shim
`python -m xeontrain_trainer.rank ...`. Python 3.6 can read this one file, since a Python that is too old, or
not whole, is told so here: in the container's termination message, which the operator shows in the job's
condition.
"""

import os
import platform
import sys

OLDEST = (3, 9)
EXIT_NOT_EXECUTABLE = 126


def run():
    """Becomes the launcher or the shim. Raises ImportError where a module of the library is not there."""
    if sys.argv[1:2] == ["rank"]:
        from xeontrain_trainer.rank import main

        main(sys.argv[2:])
    else:
        import runpy

        runpy.run_module("xeontrain_trainer.launcher", run_name="__main__", alter_sys=False)


def give_up(cause):
    """Says why the launcher cannot run, to the log and to the kubelet."""
    this, oldest = platform.python_version(), ".".join(map(str, OLDEST))
    text = (
        f"spec.image: its python3 ({sys.executable}, {this}) cannot run the launcher: {cause}. The launcher "
        f"needs Python {oldest} or later with its whole standard library; use such an image, or leave out "
        "spec.image to get the operator's own"
    )
    sys.stderr.write(f"xeontrain: {text}\n")
    try:
        with open(os.environ.get("XEONTRAIN_TERMINATION_LOG", ""), "w") as file:
            file.write(text)
    except OSError:
        pass
    sys.exit(EXIT_NOT_EXECUTABLE)


if sys.version_info[:2] < OLDEST:
    give_up("it is too old")
try:
    run()
except ImportError as error:
    give_up(error)

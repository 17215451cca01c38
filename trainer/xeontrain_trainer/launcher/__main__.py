"""`python -m xeontrain_trainer.launcher -- COMMAND [ARGUMENT...]`: process 1 of a trainer pod."""

from __future__ import annotations

import os
import signal
import sys

# `-m` looks for modules in the working directory first, which is the user's: a queue.py there is not the
# library's. The ranks get the path of their own interpreter, whatever is done here.
if sys.path[0] == os.getcwd():
    del sys.path[0]

# The kernel throws away a SIGTERM for process 1 that nobody handles yet; one that is blocked waits.
signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))

from .main import main  # noqa: E402

code = main(sys.argv[1:], os.environ)
sys.stdout.flush()
sys.stderr.flush()
# Without waiting for threads that hang in a storage or a name service that is away.
os._exit(code)

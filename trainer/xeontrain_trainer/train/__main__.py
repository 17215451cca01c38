"""`python -m xeontrain_trainer.train`: one rank. Its exit codes are those of docs/contract.md."""

from __future__ import annotations

import os
import sys
import traceback

from .. import contract
from .environment import Environment
from .errors import InterruptedRun, UserError, last_words, write_error_file
from .run import run


def main() -> int:
    """Run this rank; returns its exit code. What a user can mend is one line, anything else told in full."""
    error_file = os.environ.get("TORCHELASTIC_ERROR_FILE")
    try:
        run(Environment.from_environ(os.environ))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        write_error_file(error_file, message=str(error))
        return error.exit_code
    except InterruptedRun as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except Exception as error:
        traceback.print_exc()
        write_error_file(error_file, message=last_words(error))
        return 1
    return contract.EXIT_OK


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # At once: a failed rank's interpreter would wait, in its shutdown, for peers that wait for it.
    os._exit(code)

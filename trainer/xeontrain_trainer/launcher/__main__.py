"""`python -m xeontrain_trainer.launcher -- COMMAND [ARGUMENT...]`: process 1 of a trainer pod."""

from __future__ import annotations

import os
import sys

from .main import main

sys.exit(main(sys.argv[1:], os.environ))

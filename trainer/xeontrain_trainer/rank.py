"""The exec shim of a rank: `python -m xeontrain_trainer.rank [--parent PID] -- COMMAND [ARGUMENT...]`."""

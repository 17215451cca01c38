"""What runs in a XeonTrainJob's pod: launcher, gang, plan, rank shim and the built-in trainer."""

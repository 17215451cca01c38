"""One rule of a job's life a module: pure functions of a `Situation`."""

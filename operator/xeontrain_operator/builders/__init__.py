"""The children of a job, as plain dicts: pure functions of the job and the operator's settings."""

"""Measures training on this machine against what else a user would start: `make bench-train`.

All contenders of a row run on the same CPUs, in turn and in changing order. A step counts only while the rest
of the machine is quiet. The outcome is written to docs/performance.md; no test ever asserts a time.
"""

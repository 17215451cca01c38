"""`xeontrain explain`: which core of a machine does what for which rank, and why.

The trainer's own planner answers, as a child process, so that what is shown is what a pod does.
"""

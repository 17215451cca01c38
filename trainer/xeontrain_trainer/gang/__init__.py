"""The gang: how the launchers of one job agree on rounds and on the verdict.

Pure state machines: messages in, messages and effects out, the clock passed in. No socket, no file, no
process: `launcher/` drives them. Standard library only.
"""

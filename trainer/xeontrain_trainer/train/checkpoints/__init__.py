"""Checkpoints: what a training leaves while it goes, and how another process goes on from there."""

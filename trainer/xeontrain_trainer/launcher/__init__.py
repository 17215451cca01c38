"""The launcher: process 1 of a trainer pod. Standard library only."""

"""`xeontrain run`: the job on this machine, without a cluster.

The operator's own builders render the pods; what a node would do with them is done here in small: volumes
become folders, the environment is resolved, and the launchers run as processes with CPUs of their own.
"""

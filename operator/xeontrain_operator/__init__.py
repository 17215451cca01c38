"""The XeonTrain operator: watches XeonTrainJobs and runs their workers. Also the `xeontrain` command."""

__version__ = "0.1.0"

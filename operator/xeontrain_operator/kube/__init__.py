"""The only package that speaks to the Kubernetes API, with plain dicts in and out."""

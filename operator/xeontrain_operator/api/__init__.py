"""The resource: its models, its CRD, its rules, and the reading and checking of documents."""

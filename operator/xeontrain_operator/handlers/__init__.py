"""kopf's side: watches feed the cache and the queue, and that is all they do.

Only `on.event` on objects: kopf then writes neither finalizers nor annotations to anything.
"""

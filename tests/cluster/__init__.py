"""A real Kubernetes on one Linux machine, in namespaces of its own.

Two tiers: `control_plane` (etcd, API server, controller manager, scheduler: ready in seconds) and
`nodes` on top of it (kubelets with exclusive CPUs, containerd, DNS, volumes: real pods). Everything
runs inside one `unshare`; the host's network and mounts stay as they are, and the death of that one
process, or of the one that started it, ends all of it.
"""

##@ Test cluster
.PHONY: cluster cluster-demo cluster-prepare images image-ipex
cluster: $(VENV)/ready ## Start a Kubernetes with two pinned nodes on this machine; prints the KUBECONFIG line
	$(PY) -m tests.cluster up

cluster-demo: $(VENV)/ready ## On such a cluster: helm install, kubectl apply, and the job's table as it changes
	$(PY) -m tests.cluster demo

cluster-prepare: $(VENV)/ready ## Build what the cluster needs (programs from Go modules, images by buildah)
	$(PY) -m tests.cluster prepare

image-ipex: $(VENV)/ready ## Build the trainer image with Intel's extension and train a little in it (40 GB of disk)
	$(PY) -m tests.cluster.ipex_image

images: $(VENV)/ready ## Build the images alone
	$(PY) -m tests.cluster.images

"""Jobs on real kubelets, seen from the outside only: kubectl and helm."""

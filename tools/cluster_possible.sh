#!/usr/bin/env bash
# Prints why the test cluster cannot run here; nothing where it can.
set -u
[ "$(uname -s)" = Linux ] || { echo "it needs Linux"; exit 1; }
[ "$(id -u)" = 0 ] || { echo "it needs root (namespaces, cgroups, containerd)"; exit 1; }
for program in unshare nsenter runc buildah debootstrap ip iptables; do
  command -v "$program" >/dev/null || { echo "the program '$program' is missing (make system installs it on Debian and Ubuntu)"; exit 1; }
done
if ! command -v go >/dev/null && [ -z "${KUBEBUILDER_ASSETS:-}" ]; then
  echo "Go 1.26 or later is missing and KUBEBUILDER_ASSETS names no ready binaries"
  exit 1
fi
exit 0

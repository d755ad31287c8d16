# Sourced by the scripts beside it: makes .venv and installs the project, once per change of its requirements.
# `reldp_extra` names what is needed: "demo" for scripts/demo; by default "dev", which is everything.
# shellcheck shell=bash
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

extra=${reldp_extra:-dev}
wanted=$(cat pyproject.toml scripts/constraints.txt | cksum)
is_installed() { [ "$(cat ".venv/.reldp-installed-$1" 2>/dev/null || true)" = "$wanted" ]; }
# Tests import a small part of what is installed for them: Python compiles that part, once, when it is imported.
bytecode=$([ "$extra" = dev ] && echo --no-compile || echo --compile)
install() { .venv/bin/python -m pip install --quiet --disable-pip-version-check $bytecode -c scripts/constraints.txt "$@"; }

if [ ! -x .venv/bin/python ]; then
  echo "making .venv ..."
  "${PYTHON:-python3}" -m venv .venv
fi
if ! is_installed dev && ! is_installed "$extra"; then
  began=$SECONDS
  echo "installing into .venv, once: reldp with $(.venv/bin/python scripts/pinned.py "$extra")," \
    "and what these need. torch alone is some 200 MB."
  # torch comes first and alone: with it in place no later requirement can pull a CUDA build.
  install torch
  echo "torch is installed after $((SECONDS - began)) s ..."
  install -e ".[$extra]"
  echo "installation took $((SECONDS - began)) s"
  echo "$wanted" > ".venv/.reldp-installed-$extra"
fi
unset PYTHONDONTWRITEBYTECODE  # processes that tests start use what others have compiled
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false

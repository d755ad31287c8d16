# Sourced by scripts/test and scripts/demo: makes .venv and installs the project, once per change of its requirements.
# shellcheck shell=bash
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

stamp=.venv/.reldp-installed
wanted=$(cat pyproject.toml scripts/constraints.txt | cksum)
if [ ! -x .venv/bin/python ]; then
  "${PYTHON:-python3}" -m venv .venv
fi
if [ "$(cat "$stamp" 2>/dev/null || true)" != "$wanted" ]; then
  echo "installing reldp and what it needs into .venv (once) ..."
  # torch comes first and alone: with it in place no later requirement can pull a CUDA build.
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -c scripts/constraints.txt torch
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -c scripts/constraints.txt -e ".[dev]"
  echo "$wanted" > "$stamp"
fi
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false

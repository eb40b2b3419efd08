#!/usr/bin/env bash
# Installs the browser that the page is tested in, Debian's chromium and its driver, and axe-core, which looks for
# what keeps people out. Where that is not possible those tests are skipped, and say so. Nothing here asks, and a server
# that does not answer is given up after a minute or two.
set -euo pipefail
cache="$(cd "$(dirname "$0")/../.." && pwd)/.cache/browser"
if [ ! -f "$cache/node_modules/axe-core/axe.min.js" ] && command -v npm >/dev/null; then
  mkdir -p "$cache"
  npm install --silent --no-save --no-audit --no-fund --ignore-scripts --fetch-timeout 20000 --fetch-retries 1 \
    --prefix "$cache" axe-core@4.14.0 >/dev/null 2>&1 </dev/null ||
    echo "axe-core could not be installed: its test is skipped" >&2
fi
if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then
  exit 0
fi
if ! command -v apt-get >/dev/null; then
  echo "no apt-get here: install chromium and chromedriver yourself, or the browser tests are skipped" >&2
  exit 0
fi
apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=1 -o Acquire::http::Timeout=20
  -o Acquire::https::Timeout=20 -o DPkg::Lock::Timeout=60)
if [ "$(id -u)" -ne 0 ]; then
  if ! sudo -n true 2>/dev/null; then
    echo "not root: run 'apt-get install chromium chromium-driver' as root, or the browser tests are skipped" >&2
    exit 0
  fi
  apt=(sudo -n "${apt[@]}") # sudo keeps no variables
fi
if ! { "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends chromium chromium-driver fonts-dejavu-core; } \
  >/dev/null </dev/null; then
  echo "chromium could not be installed: the browser tests are skipped" >&2
fi

#!/bin/sh
# Make sure that a Chromium is there for the browser tests: use the one on PATH, else install Debian's where that is possible.
for name in chromium chromium-browser google-chrome; do
  command -v "$name" >/dev/null 2>&1 && exit 0
done
if command -v apt-get >/dev/null 2>&1; then
  sudo=""
  if [ "$(id -u)" != 0 ]; then
    sudo -n true 2>/dev/null && sudo="sudo -n" || sudo="no"
  fi
  if [ "$sudo" != no ]; then
    echo "== installing Chromium for the browser tests"
    $sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends \
      chromium fonts-dejavu fonts-noto-cjk >/dev/null && exit 0
  fi
fi
echo "the browser tests need Chromium on PATH (Debian: apt-get install chromium)" >&2
exit 1

#!/bin/sh
# Draws docs/report.png: the top of the report of the run that docs/report-run.tar.gz holds, for the
# README.
set -eu
cd "$(dirname "$0")/.."
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$browser" ]; then
	echo "no Chromium found: install the package chromium" >&2
	exit 1
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tar -xzf docs/report-run.tar.gz -C "$folder"
./plimsoll report "$folder/run" -o "$folder/report.html" >/dev/null
"$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1000,860 \
	--virtual-time-budget=4000 --screenshot="$folder/report.png" "file://$folder/report.html" >/dev/null 2>&1
mv "$folder/report.png" docs/report.png
echo docs/report.png

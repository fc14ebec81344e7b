#!/usr/bin/env bash
# Takes the pictures of the front page: the report of the run in docs/pictures/run.db.gz, light and
# dark. Needs chromium. docs/pictures/report.sha256 is of the report as it was photographed: a test
# says when it is no longer current.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
gunzip -c docs/pictures/run.db.gz >"$scratch/tare.db"
bin/tare show latest --home "$scratch" --html "$scratch/report.html" >/dev/null
scheme=1
for name in light dark; do
	[[ $name == light ]] || scheme=0
	chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1180,900 \
		--blink-settings=preferredColorScheme=$scheme --screenshot="$scratch/$name.png" "file://$scratch/report.html" 2>/dev/null
	mv "$scratch/$name.png" "docs/pictures/report-$name.png"
done
# The commands that the report proposes name the directory.
sed "s|$scratch|HOME|g" "$scratch/report.html" | sha256sum | cut -d' ' -f1 >docs/pictures/report.sha256

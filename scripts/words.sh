#!/usr/bin/env bash
# Words of documentation that are written by hand: all Markdown, but what is generated. A page
# a line, the longest first, and the sum.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
git ls-files '*.md' | while read -r page; do
	if head -n 1 "$page" | grep -q 'Code generated'; then continue; fi
	printf '%6d %s\n' "$(sed -E '/<!-- (generated|made|table: begin|coverage tables: begin)/,/<!-- (end|table: end|coverage tables: end)/d' "$page" | wc -w)" "$page"
done | sort -rn | awk '{ print; sum += $1 } END { printf "%6d in all\n", sum }'

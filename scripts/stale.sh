#!/usr/bin/env bash
# Pages of results that are older than the code they measured. Each page of docs/results names both
# in its first line:
#
#   <!-- measured by COMMIT; code: PATH... -->
#
# For each: the number of commits since that changed that code.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for page in docs/results/*.md; do
	[[ $page != docs/results/index.md ]] || continue
	if [[ $(head -n 1 "$page") =~ ^\<!--\ measured\ by\ ([0-9a-f]+)\;\ code:\ (.*)\ --\>$ ]]; then
		# shellcheck disable=SC2086 # a list of paths
		n=$(git rev-list --count "${BASH_REMATCH[1]}..HEAD" -- ${BASH_REMATCH[2]})
		printf '%5d commits since %s  %s\n' "$n" "${BASH_REMATCH[1]}" "$page"
	else
		echo "$page: its first line does not name the commit and the code" >&2
		exit 1
	fi
done

#!/bin/sh
# Tests the built together: that the jobs do run at once, that each one's end and output
# are kept apart, that a failure is one, and wrong usage.
set -u

failed=0
fail() {
	echo "together: $*" >&2
	failed=1
}

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# Each opens a pipe that another has to open, too: one after the other would wait for ever.
mkfifo "$dir/pipe" || exit 1
# shellcheck disable=SC2016 # the jobs' shell is to expand it
out=$(./together r w -- /bin/sh -c 'case $1 in w) echo met >"$2" ;; r) read -r a <"$2"; echo "$a" ;; esac' sh {} "$dir/pipe") ||
	fail "two that need each other: status $?: $out"
[ "$(printf '%s\n' "$out" | grep -c '"status":0')" = 2 ] || fail "not two jobs that ended well: $out"
printf '%s\n' "$out" | grep -q '"job":"r",.*"stdout":"met\\n","stderr":""}' || fail "the reader's output is lost: $out"
printf '%s\n' "$out" | grep -q '^{"jobs":2,"failed":0,"elapsed_seconds":[0-9.]*}$' || fail "no last line: $out"

# A word is filled in wherever it is asked for; bytes are escaped.
out=$(./together 'a"b' -- /usr/bin/printf '<{}{}>\t\\\351')
printf '%s\n' "$out" | grep -qF '"stdout":"<a\"ba\"b>\u0009\\\u00e9"' || fail "wrong text: $out"

# One that fails, one that is killed, one that is not there.
# shellcheck disable=SC2016 # the jobs' shell is to expand it
out=$(./together 0 3 -- /bin/sh -c 'echo "$0 says" >&2; exit "$0"' {})
[ $? = 1 ] || fail "a job that fails does not show in the status"
printf '%s\n' "$out" | grep -q '"job":"3","status":3,.*"stderr":"3 says\\n"' || fail "how it failed is not told: $out"
printf '%s\n' "$out" | grep -q '"jobs":2,"failed":1,' || fail "not one of two failed: $out"
# shellcheck disable=SC2016 # the jobs' shell is to expand it
./together x -- /bin/sh -c 'kill -9 $$' | grep -q '"status":137,' || fail "a signal is not told"
./together x -- /no/such/program | grep -q '"status":127,.*no/such/program: No such file' || fail "what is not there is not told"

# The end of much output, and not all.
# shellcheck disable=SC2016 # the jobs' shell is to expand it
out=$(./together x -- /bin/sh -c 'i=0; while [ $i -lt 2000 ]; do echo "line $i"; i=$((i + 1)); done')
printf '%s\n' "$out" | grep -q 'line 1999\\n"' || fail "the last line is lost"
[ ${#out} -lt 6000 ] || fail "${#out} bytes of a long output are shown"

for wrong in "" "x" "x --" "-- /bin/true"; do
	# shellcheck disable=SC2086 # several words are several arguments
	./together $wrong >/dev/null 2>&1
	[ $? = 2 ] || fail "'$wrong': not refused as wrong usage"
done

[ $failed = 0 ] && echo "together: ok"
exit $failed

#!/bin/sh
# Tests the built granted: the number that it fills in, what it leaves alone, wrong usage.
set -u

failed=0
fail() {
	echo "granted: $*" >&2
	failed=1
}

# A control group may have a quota of fewer CPUs than there are.
out=$(./granted /bin/echo of {} x{} {})
n=${out##* }
{ [ "$n" -ge 1 ] && [ "$n" -le "$(nproc)" ]; } || fail "$n CPUs, of $(nproc)"
[ "$out" = "of $n x{} $n" ] || fail "wrong arguments: $out"

if first=$(taskset -pc $$ 2>/dev/null); then
	first=${first##*: }
	first=${first%%[,-]*}
	out=$(taskset -c "$first" ./granted /bin/echo {})
	[ "$out" = 1 ] || fail "$out CPUs where one is allowed"
fi

./granted /bin/sh -c 'exit 7'
[ $? = 7 ] || fail "the command's status is lost"
./granted /no/such/program 2>/dev/null
[ $? = 127 ] || fail "what is not there has another status than 127"
./granted >/dev/null 2>&1
[ $? = 2 ] || fail "no command: not refused as wrong usage"

[ $failed = 0 ] && echo "granted: ok"
exit $failed

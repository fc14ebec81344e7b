#!/bin/sh
# Tests the built stream: known sizes, both kinds of stores, wrong usage, and
# that a wrong result does not pass for a right one.
set -u

failed=0
fail() {
	echo "stream: $*" >&2
	failed=1
}

# Sizes around a vector, a cache line and a thread's share; fewer elements than
# threads; more threads than one line each.
for elements in 1 2 3 7 8 9 63 64 65 1000 4097 100003; do
	for threads in 1 2 3; do
		for stores in auto plain; do
			out=$(./stream --elements $elements --repetitions 3 --threads $threads --stores $stores) ||
				fail "$elements elements, $threads threads, $stores stores: status $?"
			[ "$(echo "$out" | grep -c '"valid":true')" = 4 ] ||
				fail "$elements elements, $threads threads, $stores stores: not four valid kernels: $out"
			echo "$out" | grep -q "\"kernel\":\"add\",\"elements\":$elements,\"threads\":$threads,.*\"bytes\":$((24 * elements))," ||
				fail "$elements elements: wrong shape: $out"
		done
	done
done

# The most repetitions stay finite.
./stream --elements 100 --repetitions 250 | grep -q '"valid":true' || fail "250 repetitions overflow"

# An array of a page is cache-resident wherever a cache is known.
./stream --elements 512 --repetitions 2 | grep -q '"cache_resident":false' && fail "a page counts as larger than the cache"

for array in a b c; do
	if out=$(./stream-wrong-$array --elements 1000 --repetitions 3 2>&1); then
		fail "an error in array $array passes"
	fi
	echo "$out" | grep -q "array $array is off" || fail "an error in array $array is not named: $out"
	echo "$out" | grep -q '"valid":true' && fail "an error in array $array counts as valid"
done

for wrong in "--elements 0" "--elements x" "--repetitions 1" "--repetitions 251" "--threads 0" "--stores best" "extra" "--no" \
	"--serve 9095" "--serve localhost:9095" "--serve 127.0.0.1:0" "--serve 127.0.0.1:65536" "--serve 127.0.0.1:9x" \
	"--serve 127.0.0.1:9095 --repetitions 3"; do
	# shellcheck disable=SC2086 # several words are several arguments
	./stream $wrong >/dev/null 2>&1
	[ $? = 2 ] || fail "$wrong: not refused as wrong usage"
done

[ $failed = 0 ] && echo "stream: ok"
exit $failed

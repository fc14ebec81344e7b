#!/bin/sh
# Tests the built stream-mpi: sizes that do not divide by the ranks, more ranks than
# CPUs, wrong usage, and that a wrong result of one rank does not pass for a right one.
set -u

failed=0
fail() {
	echo "stream-mpi: $*" >&2
	failed=1
}

# ranks starts a program on so many ranks of this host, by shared memory alone.
ranks() {
	n=$1
	shift
	UCX_TLS=self,sysv "${MPIEXEC:-mpiexec}" -launcher fork -hosts 127.0.0.1 -localhost 127.0.0.1 -n "$n" "$@"
}

for elements in 5 64 1000 4097 100003; do
	for n in 1 2 5; do
		for stores in auto plain; do
			out=$(ranks $n ./stream-mpi --elements $elements --repetitions 3 --stores $stores) ||
				fail "$elements elements, $n ranks, $stores stores: status $?"
			[ "$(echo "$out" | grep -c '"valid":true')" = 4 ] ||
				fail "$elements elements, $n ranks, $stores stores: not four valid kernels: $out"
			echo "$out" | grep -q "\"kernel\":\"add\",\"elements\":$elements,\"processes\":$n,.*\"bytes\":$((24 * elements))," ||
				fail "$elements elements, $n ranks: wrong shape: $out"
		done
	done
done

if out=$(ranks 3 ./stream-mpi --elements 2 2>&1); then
	fail "fewer elements than ranks pass"
fi
echo "$out" | grep -q "want an element for each" || fail "fewer elements than ranks are not named: $out"

for array in a b c; do
	if out=$(ranks 3 ./stream-mpi-wrong-$array --elements 1000 --repetitions 3 2>&1); then
		fail "an error of the last rank in array $array passes"
	fi
	echo "$out" | grep -q "array $array is off" || fail "an error in array $array is not named: $out"
	echo "$out" | grep -q '"valid":true' && fail "an error in array $array counts as valid"
done

for wrong in "--elements 0" "--elements x" "--repetitions 1" "--repetitions 251" "--stores best" "--threads 2" "extra"; do
	# shellcheck disable=SC2086 # several words are several arguments
	ranks 1 ./stream-mpi $wrong >/dev/null 2>&1 && fail "$wrong: not refused"
done

[ $failed = 0 ] && echo "stream-mpi: ok"
exit $failed

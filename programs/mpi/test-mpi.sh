#!/bin/sh
# Tests the built programs: arrays that do not divide by the ranks, known counts of
# primes, more ranks than CPUs, wrong usage, and that a wrong result of one rank does not
# pass for a right one.
set -u

failed=0
fail() {
	echo "mpi: $*" >&2
	failed=1
}

mpiexec=${MPIEXEC:-mpiexec}
open=
case $($mpiexec --version 2>&1) in
*"Open MPI"* | *OpenRTE* | *PRRTE*) open=yes ;;
esac

# ranks starts a program on so many ranks of this host, by shared memory alone.
ranks() {
	n=$1
	shift
	if [ -n "$open" ]; then
		OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm=isolated OMPI_MCA_btl=self,vader OMPI_MCA_pml=ob1 \
			OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_shmem=sysv \
			OMPI_MCA_mca_base_component_show_load_errors=0 \
			$mpiexec -n "$n" "$@"
	else
		UCX_TLS=self,sysv $mpiexec -launcher fork -hosts 127.0.0.1 -localhost 127.0.0.1 -n "$n" "$@"
	fi
}

# What is planted does not hang on the ranks, so that all find the same.
for elements in 1 2 5 64 1000 4097; do
	found=
	for n in 1 2 3 5; do
		out=$(ranks $n ./mpi-search --elements $elements --rounds 200 --seed 7) || fail "$elements elements, $n ranks: status $?"
		printf '%s\n' "$out" | grep -q "\"elements\":$elements,\"rounds\":200,\"seed\":7,.*\"ranks\":$n,.*\"valid\":true}" ||
			fail "$elements elements, $n ranks: wrong shape: $out"
		hits=$(printf '%s\n' "$out" | sed 's/.*\("hits":.*\),"library".*/\1/')
		[ "${found:=$hits}" = "$hits" ] || fail "$elements elements, $n ranks: $hits, and on one rank $found"
	done
done
one=$(ranks 1 ./mpi-search --rounds 1 --seed random)
two=$(ranks 1 ./mpi-search --rounds 1 --seed random)
[ "${one%%,\"hits\"*}" != "${two%%,\"hits\"*}" ] || fail "a random seed comes twice: $one"

# OEIS A007053: primes up to the powers of 2.
for n in 1 2 3; do
	out=$(ranks $n ./mpi-primes --limit 10000 --rounds 3) || fail "primes, $n ranks: status $?"
	printf '%s\n' "$out" | grep -qF '"primes":[0,1,2,4,6,11,18,31,54,97,172,309,564,1028],' || fail "primes, $n ranks: $out"
done

for wrong in mpi-search-wrong-hits mpi-search-wrong-first mpi-primes-wrong; do
	if out=$(ranks 2 ./$wrong --rounds 20 2>&1); then
		fail "$wrong passes"
	fi
	printf '%s\n' "$out" | grep -q "the figures are not valid" || fail "$wrong is not named: $out"
	printf '%s\n' "$out" | grep -q '"valid":true' && fail "$wrong counts as valid"
done

for wrong in "mpi-search --elements 0" "mpi-search --rounds x" "mpi-search --seed -1" "mpi-search extra" \
	"mpi-primes --limit 0" "mpi-primes --limit 33554432" "mpi-primes --rounds 0" "mpi-primes --seed 1" "mpi-primes extra"; do
	# shellcheck disable=SC2086 # several words are several arguments
	ranks 1 ./$wrong >/dev/null 2>&1 && fail "$wrong: not refused"
done

[ $failed = 0 ] && echo "mpi: ok"
exit $failed

#!/bin/sh
# Measures tare gpu on a machine that has a device for half an hour, of which one command may
# take ten minutes: docs/results/gpu.md says what came of it.
#
#   bench-gpu.sh build PROGRAMS CAPABILITY   where nvcc and gcc are: the CUDA programs in three
#                kinds and the activity probe's library, into directory PROGRAMS; CAPABILITY is
#                the device's, as in 9.0
#   bench-gpu.sh PHASE PROGRAMS OUT          where the device is, as root:
#       check    what the machine has, and a short run (2 minutes)
#       matrix   builds, caches, memories and platforms, with the probe (9 minutes)
#       share    1, 2, 4 and 8 at once (5 minutes)
#       torch    PyTorch, where the machine has it (4 minutes)
#       all      one after another (20 minutes): for a machine without such a limit
#
# It carries what it needs: a static bin/tare (TARE names another), PROGRAMS, and runc or crun
# in PROGRAMS/bin where the machine has none. Nothing is fetched there. Results go to OUT: of
# each run a page, JSON, and its text; the store stays in OUT/home.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
tare=${TARE:-$here/bin/tare}

die() {
	echo "bench-gpu.sh: $*" >&2
	exit 2
}

[ $# -eq 3 ] || die "want a phase and two more: see the head of $0"
phase=$1 programs=$2

build() {
	sh "$here/programs/gpu/build.sh" "$programs" --capability "$1"
	mkdir -p "$programs/probe"
	# As probe/gpu has it compiled.
	(cd "$here/probe/gpu/library" && ${CC:-gcc} -std=c11 -O2 -Wall -Wextra -fPIC -shared -fvisibility=hidden -Wl,-Bsymbolic -pthread \
		-o "$programs/probe/libtaregpu.so" trace.c begin.c interpose.c functions.c timing.c image.c cupti.c -ldl)
	du -sh "$programs"
}

# measure runs tare gpu once, and keeps what it says. A run that cannot be made ends the
# phase, with its one line last.
measure() {
	name=$1
	shift
	status=0
	"$tare" --home "$out/home" gpu --programs "$programs" --seed 20261121 --out "$out" --json "$out/$name.json" --yes "$@" >"$out/$name.txt" 2>"$out/$name.log" || status=$?
	cat "$out/$name.txt"
	[ "$status" -eq 0 ] || {
		tail -n 1 "$out/$name.log" >&2
		exit "$status"
	}
}

check() {
	uname -a
	cat /proc/driver/nvidia/version || true
	ls -l /dev/nvidia* || true
	nvidia-smi || true
	command -v nvcc gcc runc crun docker python3 || true
	"$tare" --home "$out/home" gpu --dry-run --quick | tail -n 12
	measure quick --quick
}

run() {
	case $1 in
	check) check ;;
	# Of one machine's time, three blocks or more: what is not asked for is for another.
	matrix) measure matrix --platform bare,oci:runc,docker --program lu,particlefilter,stencil,lenet-training --budget 8m ;;
	share) measure share --platform bare,oci:runc,docker --program stencil --build exact --memory pageable --probe=false --share 1,2,4,8 --budget 4m ;;
	torch) measure torch --platform bare,oci:runc,docker --program lenet-training --build exact --memory pageable --probe=false --torch --budget 3m ;;
	all) for p in check matrix share torch; do run $p; done ;;
	*) die "$1: no such phase: want build, check, matrix, share, torch or all" ;;
	esac
}

mkdir -p "$programs"
programs=$(cd "$programs" && pwd)
if [ "$phase" = build ]; then
	build "$3"
	exit
fi
mkdir -p "$3"
out=$(cd "$3" && pwd)
[ -x "$tare" ] || die "no $tare: make build makes it, or name another in TARE"
PATH=$programs/bin:$PATH
run "$phase"

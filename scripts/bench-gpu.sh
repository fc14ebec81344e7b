#!/bin/sh
# Measures tare gpu on a machine that has a device for half an hour, of which one command may
# take ten minutes: docs/results/gpu.md says what came of it.
#
#   bench-gpu.sh build PROGRAMS CAPABILITY   where nvcc and gcc are: the CUDA programs in three
#                kinds and the activity probe's library, into directory PROGRAMS; CAPABILITY is
#                the device's, as in 9.0. A driver compiles no PTX that is newer than itself: take
#                a toolkit (NVCC) that is not newer than the CUDA that nvidia-smi there tells
#   bench-gpu.sh PHASE PROGRAMS OUT          where the device is, as root:
#       check    what the machine has, and a short run (3 minutes)
#       matrix   exact code and PTX, cold cache and warm, with the probe; one container (9 minutes)
#       copies   pinned memory and pageable, and both kinds of code in one binary (4 minutes)
#       share    1, 2, 4 and 8 at once (5 minutes)
#       torch    PyTorch, where the machine has it (4 minutes)
#       limits   kernels against what the device does, LU on a larger matrix (2 minutes)
#       all      one after another (27 minutes), whatever becomes of each
#
# It carries what it needs: a static bin/tare (TARE names another), PROGRAMS, and runc or crun
# in PROGRAMS/bin where the machine has none. Nothing is fetched there. Results go to OUT: of
# each phase a page, JSON, and its text; a phase that takes too long is ended, and shows what it
# has by then. The store stays in OUT/home, or where STORE says.
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
	(cd "$here/probe/gpu/library" && ${CC:-gcc} -std=c11 -O2 -Wall -Wextra -fPIC -shared -fvisibility=hidden -Wl,-Bsymbolic-functions -pthread \
		-o "$programs/probe/libtaregpu.so" trace.c begin.c interpose.c functions.c timing.c image.c cupti.c -ldl)
	du -sh "$programs"
}

# measure runs tare gpu once, for so many seconds at most, and keeps what it says. A run that
# cannot be made ends the phase, with its one line last.
measure() {
	name=$1 most=$2
	shift 2
	status=0
	timeout -k 30 "$most" "$tare" --home "$store" gpu --programs "$programs" --seed 20261121 --out "$out" --json "$out/$name.json" --yes "$@" >"$out/$name.txt" 2>"$out/$name.log" || status=$?
	cat "$out/$name.txt"
	[ "$status" -eq 0 ] || {
		tail -n 1 "$out/$name.log" >&2
		exit "$status"
	}
}

# containers are the platforms beside bare metal: one runtime, and Docker, whose kind S1 had, last.
containers() {
	for runtime in runc crun; do
		if command -v "$runtime" >/dev/null; then
			echo "oci:$runtime"
			break
		fi
	done
	if command -v docker >/dev/null && docker info >/dev/null 2>&1; then
		echo docker
	fi
}

# machine tells what there is.
machine() {
	uname -a
	nproc
	cat /proc/driver/nvidia/version || true
	ls -l /dev/nvidia* || true
	nvidia-smi || true
	cat /proc/self/cgroup || true
	grep 'open files' /proc/self/limits || true
	for program in nvcc gcc runc crun docker python3; do
		command -v "$program" || echo "no $program"
	done
}

# runs tells whether a build's programs run here.
runs() {
	LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/local/nvidia/lib64 CUDA_CACHE_DISABLE=1 \
		"$programs/$1/devicelimits" --size 65536 --iterations 1 >/dev/null
}

# rebuild builds the programs again where that can be done here.
rebuild() {
	if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then
		echo "bench-gpu.sh: the programs are built again here"
		sh "$here/programs/gpu/build.sh" "$programs" || true
	fi
}

check() {
	machine >"$out/machine.txt" 2>&1 || true
	cat "$out/machine.txt"
	# What was brought may be newer than the driver, or than the C library here.
	for kind in exact ptx both; do
		runs "$kind" || {
			rebuild
			break
		}
	done
	"$tare" --home "$store" gpu --dry-run --quick | tail -n 12
	measure quick 150 --quick
}

run() {
	platforms=bare container=
	for container in $(containers); do
		platforms=$platforms,$container
	done
	# An interval takes three blocks, and of one machine's time a third platform would leave two.
	two=bare${container:+,$container}
	case $1 in
	check) check ;;
	matrix) measure matrix 555 --platform "$two" --program lu,particlefilter,stencil,lenet-training --build exact,ptx --cache cold,warm --memory pageable --budget 8m ;;
	copies) measure copies 270 --platform "$platforms" --program stencil,lenet-training --build exact,both --probe=false --budget 3m ;;
	# A second and more alone: starts differ by as much as making a context takes.
	share) measure share 330 --platform "$platforms" --program stencil --build exact --memory pageable --probe=false --share 1,2,4,8 --iterations stencil=5000 --budget 4m ;;
	torch) measure torch 270 --platform "$platforms" --program lenet-training --build exact --memory pageable --probe=false --torch --budget 3m ;;
	limits) measure limits 150 --platform bare --program lu,particlefilter,stencil,lenet-training,lenet-inference --build exact --memory pageable --probe=false --size lu=16384 --iterations lu=3 --budget 90s ;;
	all)
		failed=0
		for p in check matrix copies share torch limits; do
			(run "$p") || failed=$?
		done
		exit "$failed"
		;;
	*) die "$1: no such phase: want build, check, matrix, copies, share, torch, limits or all" ;;
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
store=${STORE:-$out/home}
[ -x "$tare" ] || die "no $tare: make build makes it, or name another in TARE"
[ "$(id -u)" -eq 0 ] || die "measuring needs root: run it with sudo"
PATH=$programs/bin:$PATH
# Each program is given 16384 open files, of which a small machine allows fewer; and one that
# has just started has no node of the device's memory yet.
# shellcheck disable=SC3045 # dash and bash have -H
ulimit -Hn 1048576 2>/dev/null || true
if command -v nvidia-modprobe >/dev/null; then
	nvidia-modprobe -c 0 -u || true
fi
# Programs are followed by their control groups; a small machine may have none mounted.
if ! grep -q ' - cgroup' /proc/self/mountinfo; then
	mount -t cgroup2 none /sys/fs/cgroup || true
fi
run "$phase"

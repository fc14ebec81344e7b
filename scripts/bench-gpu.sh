#!/bin/sh
# Measures tare gpu on a machine that can be had for minutes: docs/results/gpu.md says what came
# of it. All that a bare machine lacks is brought along in one archive.
#
#   bench-gpu.sh pack ARCHIVE CAPABILITY
#       where nvcc, gcc and Go are: builds the CUDA programs in three kinds for the device's
#       compute capability (9.0), the probe's library, tare and a static runc. A driver compiles
#       no PTX that is newer than itself: take a toolkit (NVCC) that is not newer than the
#       CUDA that nvidia-smi there tells. With STAND_IN set, programs run on the CPU, for a test.
#
#   DIRECTORY/bench-gpu.sh run OUT [SECONDS [PHASE...]]
#       where the device is, as root, with the archive unpacked in DIRECTORY: all phases but the
#       last, in this order, or those named; in so many seconds together (480):
#       check    what the machine has and refuses; each program's results against its reference
#       limits   every kernel against the limits of the device
#       matrix   exact code and PTX, cold cache and warm, with the probe, in a container or not
#       share    1, 2, 4 and 8 programs at once
#       torch    PyTorch, where the machine has it
#       copies   pinned memory and pageable
#       more     the other programs in a container or not
#
# OUT gets 8 files at most: a JSON file of each phase, all that was printed (log.txt), and the
# store of the runs (tare.db). A phase that takes too long is ended, and shows what it has by
# then. Where a platform is refused, kernels, calls and compilation are measured all the same.
set -eu

die() {
	echo "bench-gpu.sh: $*" >&2
	exit 2
}

pack() {
	here=$(cd "$(dirname "$0")/.." && pwd)
	into=$(mktemp -d)
	trap 'rm -rf "$into"' EXIT
	if [ -n "${STAND_IN:-}" ]; then
		sh "$here/programs/gpu/build.sh" "$into" --kind emulated
	else
		sh "$here/programs/gpu/build.sh" "$into" --capability "$2"
	fi
	mkdir -p "$into/probe" "$into/bin"
	# As probe/gpu has it compiled.
	(cd "$here/probe/gpu/library" && ${CC:-gcc} -std=c11 -O2 -Wall -Wextra -fPIC -shared -fvisibility=hidden -Wl,-Bsymbolic-functions -pthread \
		-o "$into/probe/libtaregpu.so" trace.c begin.c interpose.c functions.c timing.c image.c cupti.c -ldl)
	strip "$into"/*/libtaregpu.so "$into"/*/lu "$into"/*/particlefilter "$into"/*/stencil "$into"/*/lenet "$into"/*/devicelimits
	[ -n "${STAND_IN:-}" ] || GOBIN=$into/bin CGO_ENABLED=1 go install -trimpath -tags "netgo osusergo" \
		-ldflags "-s -w -linkmode external -extldflags -static" "github.com/opencontainers/runc@$runc"
	cp "${TARE:-$here/bin/tare}" "$into/tare"
	cp "$0" "$into/bench-gpu.sh"
	tar -C "$into" -czf "$1" .
	ls -l "$1"
}

# The runc that is packed.
runc=v1.1.15

left() { echo $((deadline - $(date +%s))); }

# part says how the time is divided among the phases.
part() {
	case $1 in
	check) echo 35 ;;
	limits) echo 85 ;;
	matrix) echo 180 ;;
	share) echo 70 ;;
	torch) echo 90 ;;
	copies) echo 40 ;;
	more) echo 120 ;;
	*) die "$1: no such phase: want check, limits, matrix, share, torch, copies or more" ;;
	esac
}

# most is how many seconds a phase may take: its part of the time, and no more than is left.
most() {
	m=$(($(part "$1") * seconds / parts)) l=$(left)
	[ "$m" -le "$l" ] || m=$l
	echo "$m"
}

# measure runs tare gpu in a phase.
measure() {
	name=$1 most=$(most "$1")
	shift
	if [ "$most" -lt 18 ]; then
		echo "$name: left out: $most seconds are too few"
		return
	fi
	# Looking at the device comes before the budget's trials, the page after them.
	# shellcheck disable=SC2086 # several flags are several arguments
	timeout -k 20 "$most" "$here/tare" --home "$store" gpu --programs "$here" --seed 20261127 \
		--json "$out/$name.json" --yes --budget "$((most - 12))s" --platform "$platforms" $small "$@" || echo "$name: exit status $?"
}

# machine tells what there is.
machine() {
	uname -a
	nproc
	cat /proc/driver/nvidia/version || true
	ls -l /dev/nvidia* || true
	timeout 20 nvidia-smi || true # it hangs where a device does
	cat /proc/self/cgroup || true
	grep -E ' - (cgroup|nvidia)|/nvidia' /proc/self/mountinfo || true
	grep 'open files' /proc/self/limits || true
	for program in nvcc gcc runc crun docker python3 ncu; do
		command -v "$program" || echo "no $program"
	done
	unshare --mount --pid --fork true && echo "namespaces: yes" || echo "namespaces: no"
}

# correct compares a program's results with its reference, on input of a seed that it draws.
correct() {
	program=$1
	shift
	for kind in exact ptx emulated; do
		[ -x "$here/$kind/$program" ] || continue
		if [ "$(date +%s)" -ge "$enough" ]; then
			echo "correct: $kind $program $*: left out: there is no time"
			continue
		fi
		status=0
		said=$(timeout 20 "$here/$kind/$program" --iterations 2 --check "$@" 2>&1) || status=$?
		echo "correct: $kind $program $*: status $status $(echo "$said" | grep -o '"seed":[0-9]*\|"max_error":[^,]*\|"tolerance":[^,]*\|"valid":[a-z]*' | tr '\n' ' ')"
		[ "$status" -eq 0 ] || echo "$said" | tail -n 1
	done
}

check() {
	enough=$(($(date +%s) + $(most check)))
	machine
	timeout 30 "$here/tare" --home "$store" doctor --quick --json "$out/check.json" || echo "doctor: exit status $?"
	correct lu --size 515
	correct lu --size 1999
	correct particlefilter --size 50021
	correct stencil --size 67x70x65
	correct stencil --size 130x257x66
	correct lenet --size 96
	correct lenet --task inference --size 777
	correct devicelimits --size 1000003
}

phase() {
	echo "== $1, $(left) seconds left"
	case $1 in
	check) check ;;
	limits) measure limits --platform bare --program lu,particlefilter,stencil,lenet-training,lenet-inference --build "$exact" --memory pageable --probe=false ;;
	matrix) measure matrix --program stencil,lenet-training --build "$builds" --cache cold,warm --memory pageable --limits=false ;;
	# A second and more alone: starts differ by as much as making a context takes.
	share) measure share --program stencil --build "$exact" --memory pageable --probe=false --limits=false --share 1,2,4,8 --iterations "stencil=$long" ;;
	torch) measure torch --program lenet-inference --build "$exact" --memory pageable --probe=false --limits=false --torch ;;
	copies) measure copies --program stencil --build "$exact" --probe=false --limits=false ;;
	more) measure more --program lu,particlefilter --build "$exact" --memory pageable --limits=false ;;
	esac
}

# stand_in has sizes that a CPU does at once.
stand_in() {
	exact=emulated builds=emulated long=50
	for size in lu=96 particlefilter=4099 stencil=20x18x17 lenet=8 devicelimits=65536; do
		small="$small --size $size --iterations ${size%=*}=2"
	done
}

run() {
	out=$1 seconds=${2:-480}
	case $seconds in
	*[!0-9]* | 0*) die "$seconds: want whole seconds, such as 480" ;;
	esac
	deadline=$(($(date +%s) + seconds))
	shift
	[ $# -eq 0 ] || shift
	[ $# -gt 0 ] || set -- check limits matrix share torch copies
	parts=0
	for p in "$@"; do
		n=$(part "$p") # a name that is none ends it
		parts=$((parts + n))
	done
	[ "$(id -u)" -eq 0 ] || die "measuring needs root: run it with sudo"
	here=$(cd "$(dirname "$0")" && pwd)
	[ -x "$here/tare" ] || die "no tare beside $0: unpack the archive that bench-gpu.sh pack made"
	mkdir -p "$out"
	out=$(cd "$out" && pwd)
	# All that is printed goes to the screen and to a file.
	pipe=$(mktemp -u)
	mkfifo "$pipe"
	tee "$out/log.txt" <"$pipe" &
	exec >"$pipe" 2>&1
	rm "$pipe"
	store=${STORE:-$here/home}
	exact=exact builds=exact,ptx platforms=bare,oci:runc long=3000
	small=
	[ -d "$here/exact" ] || stand_in
	PATH=$here/bin:$PATH:/usr/local/nvidia/bin:/usr/local/cuda/bin
	LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/local/nvidia/lib64
	export PATH LD_LIBRARY_PATH
	# Each program is given 16384 open files, of which a small machine allows fewer; and one that
	# has just started has no node of the device's memory yet.
	# shellcheck disable=SC3045 # dash and bash have -H
	ulimit -Hn 1048576 2>/dev/null || true
	if command -v nvidia-modprobe >/dev/null; then
		nvidia-modprobe -c 0 -u || true
	fi
	# Programs are followed by their control groups; a small machine may have none mounted.
	grep -q ' - cgroup' /proc/self/mountinfo || mount -t cgroup2 none /sys/fs/cgroup || true
	for p in "$@"; do
		phase "$p"
	done
	echo "== end, $(left) seconds left"
	cp "$store/tare.db" "$out/" || true
	exec >&- 2>&-
	wait
}

case ${1:-} in
pack)
	[ $# -eq 3 ] || die "pack: want ARCHIVE and CAPABILITY: see the head of $0"
	pack "$2" "$3"
	;;
run)
	[ $# -ge 2 ] || die "run: want OUT: see the head of $0"
	shift
	run "$@"
	;;
*) die "want pack or run: see the head of $0" ;;
esac

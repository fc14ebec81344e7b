#!/bin/sh
# Builds the CUDA programs beside it into DIRECTORY/KIND/PROGRAM.
#
#   build.sh DIRECTORY [--kind KIND]... [--program NAME]... [--capability N.N]
#
#   --kind        exact: machine code of one compute capability alone
#                 ptx: portable code alone, the oldest that the compiler takes
#                 both: both in one binary
#                 emulated: by g++, for tests on a CPU
#                 left out: exact, ptx and both
#   --program     left out: all
#   --capability  of the device that exact and both are for; left out: of the first device
#                 here, as nvidia-smi tells it
#
# NVCC names the compiler, which is otherwise looked for on PATH and in /usr/local/cuda;
# NVCCFLAGS, CXX and CXXFLAGS are as usual. SANITIZE names g++'s sanitizers for what is
# emulated, as in address,undefined. The binaries need the driver's library and
# the C library, no other: CUDA's runtime and C++'s are linked in.
#
# Exit status: 0, 1 where compiling fails, 2 for wrong usage, 3 where the compiler or the
# device is missing.
set -eu

here=$(cd "$(dirname "$0")" && pwd)

die() {
	status=$1
	shift
	echo "build.sh: $*" >&2
	exit "$status"
}

kinds=
programs=
capability=
directory=
compilers=
while [ $# -gt 0 ]; do
	case $1 in
	--kind | --program | --capability)
		[ $# -gt 1 ] || die 2 "$1: needs a value"
		;;
	-*) die 2 "$1: no such flag: want --kind, --program or --capability" ;;
	esac
	case $1 in
	--kind)
		case $2 in
		exact | ptx | both | emulated) kinds="$kinds $2" ;;
		*) die 2 "--kind $2: want exact, ptx, both or emulated" ;;
		esac
		shift 2
		;;
	--program)
		case $2 in
		lu | particlefilter | stencil | lenet | devicelimits) programs="$programs $2" ;;
		*) die 2 "--program $2: want lu, particlefilter, stencil, lenet or devicelimits" ;;
		esac
		shift 2
		;;
	--capability)
		capability=$(expr "$2" : '\([1-9][0-9]*\.[0-9]\)$') || die 2 "--capability $2: want one as in 9.0"
		shift 2
		;;
	*)
		[ -z "$directory" ] || die 2 "$1: one directory is enough"
		directory=$1
		shift
		;;
	esac
done
[ -n "$directory" ] || die 2 "name a directory to build into"
[ -n "$kinds" ] || kinds="exact ptx both"
[ -n "$programs" ] || programs="lu particlefilter stencil lenet devicelimits"

# A kind's sources are compiled all at once, the frame that programs have in common with them.
# Who stops this script stops its compilers: once all that have begun are known.
stopped=
trap 'stopped=1' INT TERM

begin() {
	"$@" &
	compilers="$compilers $!"
}

await() {
	failed=0
	for compiler in $compilers; do
		[ -n "$stopped" ] || wait "$compiler" || failed=$((failed + 1))
	done
	if [ -n "$stopped" ]; then
		# Twice, since one that has only begun is still a shell, which may let a signal pass.
		# shellcheck disable=SC2086 # several compilers are several arguments
		kill $compilers 2>/dev/null || true
		sleep 0.2
		# shellcheck disable=SC2086
		kill $compilers 2>/dev/null || true
		exit 1
	fi
	compilers=
	[ "$failed" = 0 ] || die 1 "$1 failed for $failed of the sources"
}

clear_objects() {
	for source in emulate frame $programs; do
		rm -f "$1/$source.o"
	done
}

# emulated builds the programs for the CPU: into a directory. They are not optimised, since
# that would take longer than what they are for.
emulated() {
	[ -n "${SANITIZE:-}" ] && sanitized="-fsanitize=$SANITIZE -fno-sanitize-recover=all" || sanitized=
	# shellcheck disable=SC2086 # several flags are several arguments
	begin ${CXX:-g++} -std=c++17 -O1 -Wall -Wextra -Werror ${SANITIZE:+-DSANITIZED} ${CXXFLAGS:-} -c "$here/emulate/emulate.cpp" -o "$1/emulate.o"
	for source in frame $programs; do
		# shellcheck disable=SC2086
		begin ${CXX:-g++} -std=c++17 -O0 -g1 -Wall -Wextra -Werror $sanitized ${CXXFLAGS:-} -DEMULATE -DBUILD_KIND='"emulated"' -DBUILD_TARGETS='""' \
			-x c++ -c "$here/cuda/$source.cu" -o "$1/$source.o"
	done
	await g++
	for program in $programs; do
		# shellcheck disable=SC2086
		begin ${CXX:-g++} $sanitized "$1/$program.o" "$1/frame.o" "$1/emulate.o" -o "$1/$program"
	done
	await g++
	clear_objects "$1"
}

find_nvcc() {
	nvcc=${NVCC:-}
	[ -n "$nvcc" ] || nvcc=$(command -v nvcc) || nvcc=/usr/local/cuda/bin/nvcc
	command -v "$nvcc" >/dev/null || die 3 "no nvcc: install a CUDA toolkit, 11.8 to 13, or name its compiler in NVCC"
	release=$("$nvcc" --version | sed -n 's/.*release \([0-9]*\.[0-9]*\),.*/\1/p')
	[ -n "$release" ] || die 3 "$nvcc does not tell its release: name CUDA's compiler in NVCC"
	major=${release%.*}
	[ "$major" -ge 12 ] || [ "$release" = 11.8 ] || die 3 "$nvcc is of CUDA $release: install a toolkit of 11.8 or newer"
	portable=$("$nvcc" --list-gpu-arch | sed -n 's/^compute_\([0-9]*\)$/\1/p' | sort -n | awk '$1 >= 50 { print; exit }')
	[ -n "$portable" ] || die 3 "$nvcc names no architecture that it compiles for"
}

find_capability() {
	if [ -z "$capability" ]; then
		capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sed -n '1s/^ *\([0-9]*\.[0-9]\) *$/\1/p')
	fi
	[ -n "$capability" ] || die 3 "no device here tells its compute capability: give it, as in --capability 9.0, or build --kind ptx alone"
	exact=$(echo "$capability" | tr -d .)
	"$nvcc" --list-gpu-code | grep -qx "sm_$exact" ||
		die 3 "nvcc of CUDA $release makes no code for sm_$exact: take a toolkit that does, or build --kind ptx alone"
}

# compile builds the programs of a kind by nvcc: into a directory.
compile() {
	directory_of_kind=$1
	case $2 in
	exact)
		targets=sm_$exact
		set -- -gencode "arch=compute_$exact,code=sm_$exact"
		;;
	ptx)
		targets=compute_$portable
		set -- -gencode "arch=compute_$portable,code=compute_$portable"
		;;
	both)
		targets=sm_$exact,compute_$portable
		set -- -gencode "arch=compute_$exact,code=sm_$exact" -gencode "arch=compute_$portable,code=compute_$portable"
		;;
	esac
	set -- -Wno-deprecated-gpu-targets "$@"
	for source in frame $programs; do
		# shellcheck disable=SC2086 # several flags are several arguments
		begin "$nvcc" -std=c++17 -O3 -Xcompiler -Wall ${NVCCFLAGS:-} "$@" -DBUILD_KIND="\"$kind\"" -DBUILD_TARGETS="\"$targets\"" \
			-c "$here/cuda/$source.cu" -o "$directory_of_kind/$source.o"
	done
	await nvcc
	for program in $programs; do
		# shellcheck disable=SC2086
		begin "$nvcc" -cudart static -Xcompiler -static-libgcc,-static-libstdc++ ${NVCCFLAGS:-} "$@" \
			"$directory_of_kind/$program.o" "$directory_of_kind/frame.o" -o "$directory_of_kind/$program"
	done
	await nvcc
	clear_objects "$directory_of_kind"
}

for kind in $kinds; do
	case $kind in
	exact | both)
		find_nvcc
		find_capability
		;;
	ptx) find_nvcc ;;
	esac
done
for kind in $kinds; do
	mkdir -p "$directory/$kind"
	if [ "$kind" = emulated ]; then
		emulated "$directory/$kind"
	else
		compile "$directory/$kind" "$kind"
	fi
done

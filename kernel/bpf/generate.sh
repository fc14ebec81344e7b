#!/bin/sh
# generate.sh SOURCE [FLAG...], by go:generate in the directory of the package that loads the
# programs: compiles them into the object that is committed there, and writes beside it which
# sources it was made of, to which a test of this directory holds it. Another compiler makes
# another object of the same meaning: so only the one named here is used, and where it is
# absent the committed object stands.
set -eu
source=$1
shift
headers=$(dirname "$0")
if ! command -v clang-14 >/dev/null || ! command -v llvm-strip-14 >/dev/null || [ ! -e /usr/include/bpf/bpf_helpers.h ]; then
	echo "$source: no clang-14, llvm-14 or libbpf-dev: the committed object stands" >&2
	exit 0
fi
CGO_ENABLED=0 go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-14 -strip llvm-strip-14 \
	-target bpfel -no-global-types -go-package "$GOPACKAGE" object "$source" -- -O2 -g -Wall -Werror "$@"
sha256sum "$source" "$headers"/*.h >object_bpfel.sha256

#!/bin/sh
# Makes the code of service.thrift anew, in Python for server and client and in Go
# for the server, and records the source's SHA-256, to which a test holds it. Only
# the compiler named here is used, which is that of the libraries in the image:
# another makes other code, and where it is absent the committed code stands.
set -eu
cd "$(dirname "$0")"
version="Thrift version 0.17.0"
if ! command -v thrift >/dev/null || [ "$(thrift --version)" != "$version" ]; then
	echo "programs/thrift: no thrift-compiler 0.17.0: the committed code stands" >&2
	exit 0
fi
out=$(mktemp -d)
trap 'rm -r "$out"' EXIT
thrift --gen py --out "$out" service.thrift
thrift --gen go:skip_remote --out "$out" service.thrift
mkdir -p python/latency server
for name in __init__ constants Latency ttypes; do
	cp "$out/latency/$name.py" python/latency/
done
# The compiler's Go is not as gofmt wants it.
cp "$out/main/service.go" server/service.go
go run cmd/gofmt -s -w server/service.go
sha256sum service.thrift >service.sha256

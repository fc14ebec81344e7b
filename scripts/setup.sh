#!/usr/bin/env bash
# All set-up that building, testing and weighing need, and nothing beyond: the
# Go toolchain, Debian packages, a Docker engine that answers, the linters.
# Every step looks before it acts, so a second call does nothing and is quick,
# and says one line. `scripts/setup.sh help` lists the steps.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/tare
engine_state=/run/tare
installed=$cache/installed # the packages that were missing, a line each

# What is fetched where no Go on PATH satisfies go.mod. Raise it with go.mod.
go_release=1.26.8

# COMMAND PACKAGE REASON. A package is looked for by a command of it (a leading
# / names a file), so that another distribution, whose packages have other
# names, counts as complete where the commands are there.
packages='
/etc/ssl/certs/ca-certificates.crt ca-certificates  module proxies and mirrors speak TLS
git                   git         the version, and which files are ours
runc                  runc        platform oci:runc
crun                  crun        platform oci:crun
containerd            containerd  below the engine
dockerd               docker.io   platform docker
docker                docker.io   asks whether an engine answers
iptables              iptables    the engine publishes ports with it
ip                    iproute2    to look at what a network setting made
ps                    procps      to look at what runs
rootlesskit           rootlesskit the tests of platform docker:rootless
newuidmap             uidmap      the same
slirp4netns           slirp4netns the same
busybox               busybox-static  what the tests of platforms run
mvn                   maven       fetches the jars of the databases
npm                   npm         fetches the modules of the booking site
qemu-system-x86_64    qemu-system-x86  platform vm
mkfs.ext4             e2fsprogs   disks of virtual machines
valgrind              valgrind    counts the instructions of functions
gcc                   gcc         tests of programs/
g++                   g++         tests of programs/gpu
/usr/include/stdio.h  libc6-dev   tests of programs/
/usr/include/lmdb.h   liblmdb-dev tests of programs/mapstore
'

# The same for make test-nodes alone. Where services run, etcd-server's starts one that nothing here
# uses: systemctl disable --now etcd.
node_packages='
/usr/bin/etcd         etcd-server  the store of Kubernetes
/usr/bin/containerd   containerd   runs pods
/usr/lib/cni/bridge   containernetworking-plugins  the network of pods
'

# The status for "this host lacks it", as tare itself uses it; 1 is a failure.
lacks=3

# Engines and iptables live in sbin, which a login without root's profile has
# not on its PATH.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

say() { printf '%s\n' "$*"; }
die() {
	printf '%s\n' "$*" >&2
	exit 1
}

# What a step is in the middle of, gone however the script ends.
scratch=
trap 'discard "$scratch"' EXIT

# discard removes a file, or a tree that Go may have made read-only.
discard() {
	if [[ -n $1 && -e $1 ]]; then
		chmod -R u+w "$1"
		rm -rf "$1"
	fi
}

# lack says on standard error what is missing and gives the status for it.
lack() {
	printf '%s\n' "$*" >&2
	return "$lacks"
}

usage() {
	cat <<'TEXT'
usage: scripts/setup.sh STEP...

  packages     Debian packages: OCI runtimes, the Docker engine, a C compiler
  go           a Go toolchain that satisfies go.mod
  engine       a Docker engine that answers; started here if none does
  nodes        Debian packages for make test-nodes: etcd, containerd, network plugins
  lint         shellcheck and staticcheck
  all          packages, go, engine; what the host lacks is said and passed over
  which-go     print the path of the Go that the build uses
  engine-stop  stop the engine that `engine` started, and no other
  undo         stop that engine, and say how to remove what was installed

Status: 0 done, 1 failed, 3 the host lacks what the step needs.
Environment: TARE_DOCKERD_FLAGS is added to dockerd's command line; DOCKER_HOST
is where the engine answers; GOPROXY and the rest of Go's settings are honoured.
TEXT
}

# --- packages ---------------------------------------------------------------

have() {
	case $1 in
	/*) test -e "$1" ;;
	*) command -v "$1" >/dev/null ;;
	esac
}

# missing_packages LIST names those of a list of packages that are not there.
missing_packages() {
	local probe package _
	while read -r probe package _; do
		if [[ -n $probe ]] && ! have "$probe"; then
			printf '%s\n' "$package"
		fi
	done <<<"$1" | sort -u | paste -s -d ' ' -
}

# install STEP PACKAGE... installs packages, or says in one line why it cannot.
install() {
	local step=$1 package lacking=()
	shift
	if ! have apt-get; then
		lack "$step: no apt-get here; install what your distribution calls: $*"
		return
	fi
	if [[ $EUID -ne 0 ]]; then
		lack "$step: some are missing; as root: apt-get update && apt-get install -y --no-install-recommends $*"
		return
	fi
	say "$step: installing $*"
	# What is there already is not to be taken away again.
	for package; do
		dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q ' installed$' || lacking+=("$package")
	done
	scratch=$(mktemp)
	export DEBIAN_FRONTEND=noninteractive
	# Lists first: a minimal image has none, and stale ones name files that
	# the mirror no longer holds.
	if ! { apt-get update && apt-get install -y --no-install-recommends "$@"; } >"$scratch" 2>&1 </dev/null; then
		grep '^E:' "$scratch" | tail -n 3 >&2
		lack "$step: apt-get could not install $*; its last errors are above: mend that and run it again"
		return
	fi
	discard "$scratch"
	hash -r
	mkdir -p "$cache"
	[[ ${#lacking[@]} -eq 0 ]] || printf '%s\n' "${lacking[@]}" >>"$installed"
}

# complete STEP LIST installs what is missing of a list of packages.
complete() {
	local missing
	missing=$(missing_packages "$2")
	if [[ -z $missing ]]; then
		say "$1: all present"
		return
	fi
	# shellcheck disable=SC2086 # a list of words
	install "$1" $missing
}

step_packages() { complete packages "$packages"; }

step_nodes() { complete nodes "$node_packages"; }

# --- go ---------------------------------------------------------------------

go_wanted() { sed -n 's/^go //p' "$root/go.mod"; }

# at_least A B: is version A not below B? Release candidates count as below.
at_least() {
	[[ $1 =~ ^[0-9]+(\.[0-9]+)*$ ]] && [[ $(printf '%s\n' "$1" "$2" | sort -V | head -n 1) == "$2" ]]
}

# satisfies GO: asked inside the module, a Go from 1.21 on answers with the
# version that it would switch to, or fails where GOTOOLCHAIN forbids it.
satisfies() {
	local version
	[[ -x $1 ]] && version=$(cd "$root" && "$1" env GOVERSION 2>/dev/null) && at_least "${version#go}" "$(go_wanted)"
}

fetched_go() { printf '%s\n' "$cache/go/$go_release/bin/go"; }

find_go() {
	local candidate
	for candidate in "$(command -v go || true)" /usr/local/go/bin/go "$(fetched_go)"; do
		if [[ -n $candidate ]] && satisfies "$candidate"; then
			printf '%s\n' "$candidate"
			return
		fi
	done
	return 1
}

# A toolchain is an ordinary module to every Go that knows modules, so any old
# Go can fetch the new one, from wherever GOPROXY points and checked against
# the checksum database. What a Go from 1.21 on then does by itself is done here
# by hand: module archives carry no modes, and no nested go.mod.
fetch_go() {
	local old=$1 platform dir
	platform=$("$old" env GOHOSTOS)-$("$old" env GOHOSTARCH)
	at_least "$go_release" "$(go_wanted)" ||
		die "go: go.mod wants $(go_wanted), above the $go_release that setup.sh would fetch: raise go_release there"
	mkdir -p "$cache/go"
	scratch=$(mktemp -d "$cache/go/fetch.XXXXXX")
	say "go: fetching $go_release through the module proxy"
	printf 'module fetch\n' >"$scratch/go.mod"
	if ! (cd "$scratch" && GOTOOLCHAIN=local GOMODCACHE=$scratch/mod "$old" mod download "golang.org/toolchain@v0.0.1-go$go_release.$platform") >"$scratch/log" 2>&1; then
		tail -n 5 "$scratch/log" >&2
		die "go: could not fetch Go $go_release ($platform); its last lines are above: mend that, or put a Go $(go_wanted) or newer on PATH"
	fi
	dir=$scratch/mod/golang.org/toolchain@v0.0.1-go$go_release.$platform
	chmod -R u+w "$dir"
	find "$dir/bin" "$dir/pkg/tool" -type f -exec chmod a+x {} +
	find "$dir" -name _go.mod -execdir mv -T _go.mod go.mod ';'
	# By a rename, so that a fetch cut short never leaves half a toolchain.
	discard "$cache/go/$go_release"
	mv -T "$dir" "$cache/go/$go_release"
	discard "$scratch"
}

step_go() {
	local go old
	if ! go=$(find_go); then
		old=$(command -v go || true)
		if [[ -z $old ]]; then
			if ! have apt-get || [[ $EUID -ne 0 ]]; then
				lack "go: nothing can be built without Go $(go_wanted) or newer: put one on PATH, or as root on Debian: scripts/setup.sh go"
				return
			fi
			install go ca-certificates golang-go || return
			old=$(command -v go)
		fi
		fetch_go "$old"
		go=$(find_go) || die "go: $(fetched_go) was fetched and still does not satisfy go.mod: unset GOTOOLCHAIN${GOTOOLCHAIN:+ (now $GOTOOLCHAIN)}, or remove $cache/go, and run it again"
	fi
	say "go: $("$go" env GOVERSION) ($go)"
}

step_which_go() {
	find_go || lack "go: none here satisfies go.mod: scripts/setup.sh go"
}

# --- engine -----------------------------------------------------------------

server_version() { docker version --format '{{.Server.Version}}' 2>/dev/null; }

# start_time PID is the process' start in clock ticks since boot: with the id
# it names one process for good, which an id alone does not.
start_time() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }

step_engine() {
	local version address
	if ! have docker; then
		lack "engine: no docker command; as root: scripts/setup.sh packages (without an engine everything but the docker platform works)"
		return
	fi
	if version=$(server_version) && [[ -n $version ]]; then
		say "engine: Docker $version answers"
		return
	fi
	address=${DOCKER_HOST:-unix:///var/run/docker.sock}
	case $address in
	unix://*) ;;
	*)
		lack "engine: none answers at DOCKER_HOST=$address: start it there, or unset DOCKER_HOST"
		return
		;;
	esac
	if [[ $EUID -ne 0 ]]; then
		if [[ -S ${address#unix://} && ! -w ${address#unix://} ]]; then
			lack "engine: no permission to use ${address#unix://}: run as root (without an engine everything but the docker platform works)"
		else
			lack "engine: none answers at $address; as root: scripts/setup.sh engine (without an engine everything but the docker platform works)"
		fi
		return
	fi
	if ! have dockerd; then
		lack "engine: none answers at $address and there is no dockerd to start: scripts/setup.sh packages"
		return
	fi
	start_engine "$address"
	say "engine: Docker $(server_version) started by hand (log $engine_state/dockerd.log; stop it with: scripts/setup.sh engine-stop)"
}

# start_engine starts a daemon of its own session, so that it outlives the
# make that asked for it. There may be no systemd (a container, a CI runner),
# and where there is one it has started the engine when it was installed.
start_engine() {
	local address=$1 log=$engine_state/dockerd.log pid tries
	mkdir -p "$engine_state"
	chmod 0700 "$engine_state"
	# shellcheck disable=SC2086 # flags, a list of words
	setsid dockerd --host="$address" ${TARE_DOCKERD_FLAGS:-} >"$log" 2>&1 </dev/null &
	pid=$!
	printf '%s %s\n' "$pid" "$(start_time "$pid")" >"$engine_state/dockerd.pid"
	for ((tries = 0; tries < 150; tries++)); do
		if [[ -n $(server_version) ]]; then
			return
		fi
		if ! kill -0 "$pid" 2>/dev/null; then
			break
		fi
		sleep 0.2
	done
	tail -n 8 "$log" >&2
	step_engine_stop >/dev/null
	die "engine: dockerd did not answer at $address; its last lines are above (whole log: $log)"
}

step_engine_stop() {
	local pid started
	if ! read -r pid started 2>/dev/null <"$engine_state/dockerd.pid"; then
		say "engine: none that was started here"
		return
	fi
	if [[ $(start_time "$pid") == "$started" ]]; then
		kill "$pid"
		# Its containers are stopped first, each with its own grace.
		while [[ $(start_time "$pid") == "$started" ]]; do
			sleep 0.2
		done
	fi
	rm -f "$engine_state/dockerd.pid"
	say "engine: stopped"
}

# --- lint -------------------------------------------------------------------

step_lint() {
	local go
	if ! have shellcheck; then
		install lint shellcheck || true
	fi
	go=$(step_which_go)
	(cd "$root" && "$go" tool -modfile=tools/go.mod staticcheck -version)
}

# --- undo -------------------------------------------------------------------

# Packages are named and not removed: others may have come to need them.
step_undo() {
	step_engine_stop
	if [[ -s $installed ]]; then
		say "packages that were installed: apt-get remove $(sort -u "$installed" | paste -s -d ' ' -)"
	else
		say "packages: none were installed from here"
	fi
	if [[ -d $cache ]]; then
		say "what was fetched, Go among it: rm -rf $cache"
	fi
	say "what was measured, and images: rm -rf --one-file-system /var/lib/tare (bin/tare clean first)"
}

# --- all --------------------------------------------------------------------

# optional runs a step whose lack leaves the rest usable.
optional() {
	local status=0
	"$@" || status=$?
	if [[ $status -ne 0 && $status -ne $lacks ]]; then
		exit "$status"
	fi
}

step_all() {
	optional step_packages
	step_go
	optional step_engine
}

if [[ $# -eq 0 ]]; then
	usage >&2
	exit 2
fi
for step; do
	case $step in
	packages) step_packages ;;
	nodes) step_nodes ;;
	go) step_go ;;
	engine) step_engine ;;
	lint) step_lint ;;
	all) step_all ;;
	which-go) step_which_go ;;
	engine-stop) step_engine_stop ;;
	undo) step_undo ;;
	help | -h | --help) usage ;;
	*)
		usage >&2
		exit 2
		;;
	esac
done

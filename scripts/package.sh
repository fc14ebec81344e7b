#!/usr/bin/env bash
# What is installed, and what is made of it: a Debian package, a tarball, an image.
#
#   package.sh install DESTDIR PREFIX BINARIES   the files, below DESTDIR/PREFIX
#   package.sh uninstall DESTDIR PREFIX          takes exactly those away
#   package.sh deb VERSION ARCH BINARIES OUT     tare_VERSION_ARCH.deb
#   package.sh tarball VERSION ARCH BINARIES OUT tare-VERSION-linux-ARCH.tar.gz
#
# BINARIES is a directory with tare, annexd, annex and kubectl-tare, and with man/ and completions/
# as cli/reference makes them. ARCH is amd64 or arm64.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
programs=(tare annexd annex)
scratch=
trap '[[ -z $scratch ]] || rm -rf "$scratch"' EXIT

die() {
	printf 'package.sh: %s\n' "$*" >&2
	exit 2
}

# files PREFIX BINARIES: each file as "SOURCE MODE DESTINATION", the destination below DESTDIR.
files() {
	local prefix=$1 binaries=$2 name
	for name in "${programs[@]}"; do
		echo "$binaries/$name 755 $prefix/bin/$name"
		echo "$binaries/completions/bash/$name 644 $prefix/share/bash-completion/completions/$name"
		echo "$binaries/completions/zsh/_$name 644 $prefix/share/zsh/site-functions/_$name"
		echo "$binaries/completions/fish/$name.fish 644 $prefix/share/fish/vendor_completions.d/$name.fish"
	done
	echo "$binaries/kubectl-tare 755 $prefix/bin/kubectl-tare"
	echo "$root/contrib/kubectl_complete-tare 755 $prefix/bin/kubectl_complete-tare"
	for name in "$binaries"/man/*; do
		echo "$name 644 $prefix/share/man/man${name##*.}/${name##*/}"
	done
	echo "$root/contrib/annexd.service 644 $(units "$prefix")/annexd.service"
	for name in LICENSE README.md SECURITY.md CHANGELOG.md; do
		echo "$root/$name 644 $prefix/share/doc/tare/$name"
	done
}

# units PREFIX: where systemd looks for units of this prefix.
units() {
	case $1 in
	/usr | /usr/local) echo "$1/lib/systemd/system" ;;
	*) echo "$1/share/doc/tare" ;; # systemd does not look elsewhere
	esac
}

install_files() {
	local destination=$1 prefix=$2 binaries=$3 source mode to
	[[ $prefix == /* ]] || die "PREFIX=$prefix: want an absolute path, such as /usr/local"
	while read -r source mode to; do
		install -D -m "$mode" "$source" "$destination$to"
	done < <(files "$prefix" "$binaries")
	sed -i "s|/usr/local/bin/|$prefix/bin/|" "$destination$(units "$prefix")/annexd.service"
}

uninstall_files() {
	local destination=$1 prefix=$2 to
	while read -r _ _ to; do
		rm -f "$destination$to"
	done < <(files "$prefix" "$root/bin")
	rm -f "$destination$prefix"/share/man/man[18]/{tare,annex,annexd,kubectl-tare}{,-*}.[18]
	rmdir --ignore-fail-on-non-empty "$destination$prefix/share/doc/tare" 2>/dev/null || true
}

# A version of Debian's begins with a digit, and - parts it from the revision.
debian_version() {
	local version=${1#v}
	[[ $version == [0-9]* && $version == *.* ]] || version="0~git.$version"
	version=$(sed -E 's/-(alpha|beta|rc)/~\1/' <<<"$version") # which come before their release
	echo "${version//-/+}"
}

make_deb() {
	local version arch=$2 binaries=$3 out=$4
	version=$(debian_version "$1")
	scratch=$(mktemp -d)
	chmod 755 "$scratch"
	install_files "$scratch" /usr "$binaries"
	mkdir "$scratch/DEBIAN"
	cat >"$scratch/DEBIAN/control" <<-END
		Package: tare
		Version: $version
		Architecture: $arch
		Maintainer: the authors of tare <tare@localhost>
		Section: admin
		Priority: optional
		Installed-Size: $(du -sk "$scratch/usr" | cut -f1)
		Suggests: docker.io, runc, crun, containerd
		Description: weighs what a container costs the program inside it
		 tare runs a program on bare metal, in containers and in virtual machines side by
		 side. It gives each cost with an interval and a verdict, and names the layer that
		 it comes from. annexd lets a host hold more containers than its memory does.
	END
	# The administrator enables annexd, and writes its configuration first. One that runs goes on
	# by the new program.
	cat >"$scratch/DEBIAN/postinst" <<-'END'
		#!/bin/sh
		set -e
		if [ -d /run/systemd/system ]; then
			systemctl daemon-reload || true
			systemctl try-restart annexd || true
		fi
	END
	# An annexd that runs ends before its program goes, and puts every setting back. What a killed
	# tare left goes with the program that can remove it.
	cat >"$scratch/DEBIAN/prerm" <<-'END'
		#!/bin/sh
		set -e
		if [ "$1" = remove ]; then
			if [ -d /run/systemd/system ]; then systemctl disable --now annexd || true; fi
			/usr/bin/tare clean >/dev/null || true
		fi
	END
	# What was measured stays until the package is purged.
	cat >"$scratch/DEBIAN/postrm" <<-'END'
		#!/bin/sh
		set -e
		if [ "$1" = purge ]; then
			for dir in /var/lib/tare /var/lib/annex /var/log/annex /etc/annex; do
				[ -d "$dir" ] || continue
				find "$dir" -xdev -mindepth 1 -delete || true
				rmdir "$dir" 2>/dev/null || true # it stays where a file system is mounted there
			done
		fi
		if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
	END
	chmod 755 "$scratch"/DEBIAN/{postinst,prerm,postrm}
	mkdir -p "$out"
	dpkg-deb --root-owner-group --build "$scratch" "$out/tare_${version}_$arch.deb" >/dev/null
	echo "$out/tare_${version}_$arch.deb"
}

make_tarball() {
	local name=tare-$1-linux-$2 out=$4
	scratch=$(mktemp -d)
	install_files "$scratch/$name" /usr/local "$3"
	mkdir -p "$out"
	# The same files make the same bytes.
	tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -C "$scratch" -c "$name" | gzip -n >"$out/$name.tar.gz"
	echo "$out/$name.tar.gz"
}

case ${1:-} in
install) install_files "$2" "$3" "$4" ;;
uninstall) uninstall_files "$2" "$3" ;;
deb) make_deb "$2" "$3" "$4" "$5" ;;
tarball) make_tarball "$2" "$3" "$4" "$5" ;;
*) die "want install, uninstall, deb or tarball; see the head of this file" ;;
esac

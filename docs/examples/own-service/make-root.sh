#!/bin/sh
# Unpacks lighttpd and the libraries that it needs from Debian's packages into root/,
# beside this file: a service as small as one's own might be. It installs nothing.
set -eu
cd "$(dirname "$0")"
rm -rf root packages
mkdir root packages
(cd packages && apt-get download lighttpd libc6 libcrypt1 libnettle8 libpcre2-8-0 libxxhash0)
for package in packages/*.deb; do
	dpkg-deb --extract "$package" root
done
rm -r packages
cp lighttpd.conf root/etc/lighttpd.conf
mkdir -p root/srv
head -c 4096 /dev/zero | tr '\0' x > root/srv/index.html

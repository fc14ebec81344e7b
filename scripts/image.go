//go:build ignore

// Image makes an image of tare, annexd and annex that docker load and podman load take. The same
// programs make the same image.
//
//	go run scripts/image.go -version VERSION -arch ARCH -binaries DIRECTORY -out DIRECTORY
package main

import (
	"archive/tar"
	"bytes"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	log.SetFlags(0)
	version := flag.String("version", "", "the image's tag")
	arch := flag.String("arch", "", "amd64 or arm64")
	binaries := flag.String("binaries", "", "directory with the programs")
	out := flag.String("out", ".", "directory for the image")
	flag.Parse()
	image, err := build(*binaries, *arch, *version)
	if err != nil {
		log.Fatal("image: ", err)
	}
	tag, err := name.NewTag("tare:" + *version)
	if err != nil {
		log.Fatal("image: ", err)
	}
	path := filepath.Join(*out, "tare-"+*version+"-image-"+*arch+".tar")
	if err := tarball.WriteToFile(path, tag, image); err != nil {
		log.Fatal("image: ", err)
	}
	digest, err := image.Digest()
	if err != nil {
		log.Fatal("image: ", err)
	}
	fmt.Println(path, digest)
}

// build makes an image with one layer of programs; its times are 0.
func build(binaries, arch, version string) (v1.Image, error) {
	layer, err := programs(binaries)
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file.Architecture, file.OS = arch, "linux"
	file.Config = v1.Config{
		Entrypoint: []string{"/usr/local/bin/tare"},
		Env:        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		Labels:     map[string]string{"org.opencontainers.image.version": version, "org.opencontainers.image.licenses": "Apache-2.0"},
	}
	return mutate.ConfigFile(image, file)
}

func programs(directory string) (v1.Layer, error) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, dir := range []string{"tmp/", "usr/", "usr/local/", "usr/local/bin/", "var/", "var/lib/"} {
		mode := int64(0o755)
		if dir == "tmp/" {
			mode = 0o1777
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: mode}); err != nil {
			return nil, err
		}
	}
	for _, program := range []string{"annex", "annexd", "tare"} {
		b, err := os.ReadFile(filepath.Join(directory, program))
		if err != nil {
			return nil, err
		}
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: "usr/local/bin/" + program, Mode: 0o755, Size: int64(len(b)),
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(b); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil },
	)
}

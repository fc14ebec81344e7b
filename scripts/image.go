//go:build ignore

// Image makes an image of tare, annexd and annex that docker load and podman load take, or, with -nodes,
// an OCI archive of kubectl-tare for the nodes of a cluster, which ctr images import and skopeo
// take, for both architectures. The same programs make the same image.
//
//	go run scripts/image.go -version VERSION -arch ARCH -binaries DIRECTORY -out DIRECTORY
//	go run scripts/image.go -nodes -version VERSION -binaries DIRECTORY/ARCH -out DIRECTORY
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	log.SetFlags(0)
	version := flag.String("version", "", "the image's tag")
	arch := flag.String("arch", "", "amd64 or arm64")
	binaries := flag.String("binaries", "", "directory with the programs; with -nodes it has one for each architecture")
	out := flag.String("out", ".", "directory for the image")
	nodes := flag.Bool("nodes", false, "make the image for nodes")
	flag.Parse()
	if *nodes {
		if err := forNodes(*binaries, *version, *out); err != nil {
			log.Fatal("image: ", err)
		}
		return
	}
	image, err := build(*binaries, *arch, *version, "usr/local/bin/", "tare", "annex", "annexd")
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

// forNodes writes the image for nodes. The archive names it by its tag and by its digest, so that
// a node which imports it knows it by both.
func forNodes(binaries, version, out string) error {
	var index v1.ImageIndex = empty.Index
	for _, arch := range []string{"amd64", "arm64"} {
		image, err := build(filepath.Join(binaries, arch), arch, version, "", "kubectl-tare")
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	const name = "tare.local/kubectl-tare"
	var whole v1.ImageIndex = empty.Index
	for _, names := range []map[string]string{
		{"io.containerd.image.name": name + ":" + version, "org.opencontainers.image.ref.name": version},
		{"io.containerd.image.name": name + "@" + digest.String()},
	} {
		whole = mutate.AppendManifests(whole, mutate.IndexAddendum{
			Add: index, Descriptor: v1.Descriptor{Annotations: names},
		})
	}
	dir, err := os.MkdirTemp("", "tare-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if _, err := layout.Write(dir, whole); err != nil {
		return err
	}
	path := filepath.Join(out, "kubectl-tare-"+version+"-image.tar")
	if err := pack(dir, path); err != nil {
		return err
	}
	fmt.Println(path, name+"@"+digest.String())
	return nil
}

// pack writes the files of a directory to an archive, by name, without times and owners.
func pack(dir, path string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := tar.NewWriter(f)
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(b))}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		_, err = w.Write(b)
		return err
	})
	return errors.Join(err, w.Close())
}

// build makes an image with one layer of programs, of which the first is run; its times are 0.
func build(binaries, arch, version, directory string, names ...string) (v1.Image, error) {
	layer, err := programs(binaries, directory, names)
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
		Entrypoint: []string{"/" + directory + names[0]},
		Env:        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		Labels:     map[string]string{"org.opencontainers.image.version": version, "org.opencontainers.image.licenses": "Apache-2.0"},
	}
	return mutate.ConfigFile(image, file)
}

func programs(from, directory string, names []string) (v1.Layer, error) {
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
	for _, program := range slices.Sorted(slices.Values(names)) {
		b, err := os.ReadFile(filepath.Join(from, program))
		if err != nil {
			return nil, err
		}
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: directory + program, Mode: 0o755, Size: int64(len(b)),
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

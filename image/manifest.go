package image

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// description is what a foreign image's documents say of it.
type description struct {
	name     string
	config   Config
	warnings []string
	layers   []layerPart
}

// layerPart is one layer, the lowest first.
type layerPart struct {
	name   string // of the part
	digest string // hexadecimal, of the part as it lies there; empty where nobody states it
	size   int64  // of the part; -1 where nobody states it
	diffID string // hexadecimal, of the tar inside
}

// Names by which the two formats are known.
const (
	dockerManifest = "manifest.json"
	ociIndex       = "index.json"
)

// reader reads the documents of one foreign image.
type reader struct {
	bundle bundle
	source string
	arch   string
	limits Limits
}

func (r *reader) refuse(entry, format string, args ...any) error {
	return &Refused{Archive: r.source, Entry: entry, Reason: fmt.Sprintf(format, args...)}
}

// describe reads the manifest, of whichever format. Archives that newer
// engines save hold both; the engine's own is the simpler.
func (r *reader) describe() (description, error) {
	if r.has(dockerManifest) {
		return r.docker()
	}
	if r.has(ociIndex) {
		return r.oci()
	}
	return description{}, r.refuse("", "neither a docker archive (%s) nor an OCI layout (%s), or cut off", dockerManifest, ociIndex)
}

func (r *reader) has(name string) bool {
	part, _, err := r.bundle.open(name)
	if err == nil {
		_ = part.Close()
	}
	return !errors.Is(err, fs.ErrNotExist)
}

func (r *reader) decode(name string, data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(into); err != nil {
		return r.refuse(name, "not the document it should be: %s", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return r.refuse(name, "more than one document")
	}
	return nil
}

// docker reads a docker archive's manifest.
func (r *reader) docker() (description, error) {
	data, err := document(r.bundle, r.source, dockerManifest, r.limits)
	if err != nil {
		return description{}, err
	}
	var manifest tarball.Manifest
	if err := r.decode(dockerManifest, data, &manifest); err != nil {
		return description{}, err
	}
	switch len(manifest) {
	case 0:
		return description{}, r.refuse(dockerManifest, "names no image")
	case 1:
	default:
		var names []string
		for _, m := range manifest {
			name := strings.Join(m.RepoTags, " ")
			if name == "" {
				name = "one without a name, " + m.Config
			}
			names = append(names, name)
		}
		return description{}, r.refuse(dockerManifest, "holds %d images (%s): save the one that is meant",
			len(manifest), shortList(names))
	}
	m := manifest[0]
	if m.Config == "" {
		return description{}, r.refuse(dockerManifest, "names no configuration")
	}
	data, err = document(r.bundle, r.source, m.Config, r.limits)
	if err != nil {
		return description{}, err
	}
	// Engines name the configuration by its digest; what is so named must be so.
	if want := strings.TrimSuffix(path.Base(m.Config), ".json"); sha256Hex.MatchString(want) {
		if err := r.check(m.Config, data, want); err != nil {
			return description{}, err
		}
	}
	parts := make([]layerPart, len(m.Layers))
	for i, name := range m.Layers {
		parts[i] = layerPart{name: name, size: -1}
		// In an OCI layout, and only there, a part's name promises its digest.
		if base, ok := strings.CutPrefix(name, "blobs/sha256/"); ok && sha256Hex.MatchString(base) {
			parts[i].digest = base
		}
	}
	d, err := r.configured(m.Config, data, parts)
	if len(m.RepoTags) > 0 {
		d.name = m.RepoTags[0]
	}
	return d, err
}

func (r *reader) check(name string, data []byte, want string) error {
	sum := sha256.Sum256(data)
	if got := hex.EncodeToString(sum[:]); got != want {
		return r.refuse(name, "its SHA-256 is %s", got)
	}
	return nil
}

// Deepest nesting of OCI indexes that is followed; one is usual, two occur.
const deepestIndex = 4

// referenceAnnotation names an image in an OCI index (image specification,
// "Pre-Defined Annotation Keys").
const referenceAnnotation = "org.opencontainers.image.ref.name"

// oci reads an OCI layout's index, and the manifest for this host in it.
func (r *reader) oci() (description, error) {
	data, err := document(r.bundle, r.source, ociIndex, r.limits)
	if err != nil {
		return description{}, err
	}
	var l listing
	if err := r.list(&l, ociIndex, data, "", 1); err != nil {
		return description{}, err
	}
	switch {
	case len(l.found) == 0 && len(l.others) == 0:
		return description{}, r.refuse(ociIndex, "names no image")
	case len(l.found) == 0:
		return description{}, r.refuse(ociIndex, "names no image for linux/%s, but %s", r.arch, shortList(l.others))
	case len(l.found) > 1:
		var names []string
		for _, c := range l.found {
			names = append(names, c.String())
		}
		return description{}, r.refuse(ociIndex, "holds %d images for linux/%s (%s): copy out the one that is meant",
			len(l.found), r.arch, shortList(names))
	}
	return r.ociManifest(l.found[0])
}

// shortList names the first of several things, and counts the rest.
func shortList(names []string) string {
	const most = 8
	if more := len(names) - most; more > 0 {
		names = append(slices.Clone(names[:most]), fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// candidate is a manifest that an index names.
type candidate struct {
	name       string
	descriptor v1.Descriptor
}

// String is the image's name, or its digest, and the platform.
func (c candidate) String() string {
	name := c.name
	if name == "" {
		name = c.descriptor.Digest.String()
	}
	if p := c.descriptor.Platform; p != nil {
		return name + " for " + platformName(p.OS, p.Architecture, p.Variant)
	}
	return name
}

func platformName(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), "/")
}

// listing is what an index and those below it name.
type listing struct {
	found  []candidate // that this host can run
	others []string    // in words: images for other platforms, and what is no image
	named  int         // all of them
}

func (l *listing) other(text string) {
	if !slices.Contains(l.others, text) {
		l.others = append(l.others, text)
	}
}

// list lists the manifests below an index.
func (r *reader) list(l *listing, entry string, data []byte, name string, depth int) error {
	if depth > deepestIndex {
		return r.refuse(entry, "indexes nested deeper than %d", deepestIndex)
	}
	var index v1.IndexManifest
	if err := r.decode(entry, data, &index); err != nil {
		return err
	}
	for _, d := range index.Manifests {
		own := name
		if ref := d.Annotations[referenceAnnotation]; ref != "" {
			own = ref
		}
		c := candidate{own, d}
		switch {
		case d.MediaType.IsIndex():
			nested, blob, err := r.blob(d)
			if err != nil {
				return err
			}
			if err := r.list(l, blob, nested, own, depth+1); err != nil {
				return err
			}
		case d.Annotations["vnd.docker.reference.type"] != "":
			// An attestation of an image.
		case !d.MediaType.IsImage():
			l.other(fmt.Sprintf("something of type %q", d.MediaType))
		case d.Platform != nil && (d.Platform.OS != "linux" || d.Platform.Architecture != r.arch):
			l.other(c.String())
		case !slices.ContainsFunc(l.found, func(f candidate) bool { return f.descriptor.Digest == d.Digest }):
			l.found = append(l.found, c)
		}
		if l.named++; l.named > r.limits.Layers {
			return r.refuse(entry, "names more than %d manifests", r.limits.Layers)
		}
	}
	return nil
}

// blob reads a document that a descriptor names, and holds it to that.
func (r *reader) blob(d v1.Descriptor) (data []byte, name string, err error) {
	if name, err = r.blobName(d); err != nil {
		return nil, "", err
	}
	if data, err = document(r.bundle, r.source, name, r.limits); err != nil {
		return nil, "", err
	}
	if int64(len(data)) != d.Size {
		return nil, "", r.refuse(name, "it has %d bytes, not %d", len(data), d.Size)
	}
	return data, name, r.check(name, data, d.Digest.Hex)
}

func (r *reader) blobName(d v1.Descriptor) (string, error) {
	if d.Digest.Algorithm != "sha256" || !sha256Hex.MatchString(d.Digest.Hex) {
		return "", r.refuse(d.Digest.String(), "not a SHA-256 digest")
	}
	return "blobs/sha256/" + d.Digest.Hex, nil
}

func (r *reader) ociManifest(c candidate) (description, error) {
	data, name, err := r.blob(c.descriptor)
	if err != nil {
		return description{}, err
	}
	var manifest v1.Manifest
	if err := r.decode(name, data, &manifest); err != nil {
		return description{}, err
	}
	isLayer := func(d v1.Descriptor) bool { return d.MediaType.IsLayer() }
	if kind := manifest.Config.MediaType; !kind.IsConfig() && !slices.ContainsFunc(manifest.Layers, isLayer) {
		return description{}, r.refuse(name, "no container image, but an artifact of type %q", kind)
	}
	if data, name, err = r.blob(manifest.Config); err != nil {
		return description{}, err
	}
	parts := make([]layerPart, len(manifest.Layers))
	for i, l := range manifest.Layers {
		if strings.HasSuffix(string(l.MediaType), "+encrypted") {
			return description{}, r.refuse(name, "its layers are encrypted, and no keys are read here: decrypt it first")
		}
		if parts[i].name, err = r.blobName(l); err != nil {
			return description{}, err
		}
		parts[i].digest, parts[i].size = l.Digest.Hex, l.Size
	}
	d, err := r.configured(name, data, parts)
	d.name = c.name
	return d, err
}

// configured reads the image configuration and joins it with the layers.
func (r *reader) configured(name string, data []byte, parts []layerPart) (description, error) {
	var c v1.ConfigFile
	if err := r.decode(name, data, &c); err != nil {
		return description{}, err
	}
	if c.OS != "" && c.OS != "linux" || c.Architecture != "" && c.Architecture != r.arch {
		return description{}, r.refuse(name, "an image for %s, and this host is linux/%s",
			platformName(c.OS, c.Architecture, c.Variant), r.arch)
	}
	if len(parts) == 0 {
		return description{}, r.refuse(name, "an image without layers")
	}
	if len(parts) > r.limits.Layers {
		return description{}, r.refuse(name, "%d layers, more than %d", len(parts), r.limits.Layers)
	}
	if len(c.RootFS.DiffIDs) != len(parts) {
		return description{}, r.refuse(name, "it has digests for %d layers, and there are %d", len(c.RootFS.DiffIDs), len(parts))
	}
	for i, id := range c.RootFS.DiffIDs {
		if id.Algorithm != "sha256" || !sha256Hex.MatchString(id.Hex) {
			return description{}, r.refuse(name, "%q is not a SHA-256 digest", id)
		}
		parts[i].diffID = id.Hex
	}
	d := description{layers: parts, config: importConfig(c.Config)}
	var warning string
	if d.config.Env, warning = settable(c.Config.Env); warning != "" {
		d.warnings = append(d.warnings, warning)
	}
	return d, nil
}

// settable leaves out of an environment the entries without a name, with which an engine
// would not start a program, and warns of those and of the ones that set nothing.
func settable(env []string) (kept []string, warning string) {
	var odd []string
	for _, entry := range env {
		name, _, sets := strings.Cut(entry, "=")
		if name == "" || !sets {
			odd = append(odd, strconv.Quote(entry[:min(len(entry), 40)]))
		}
		if name != "" {
			kept = append(kept, entry)
		}
	}
	if len(odd) == 0 {
		return kept, ""
	}
	return kept, fmt.Sprintf("%d entries of its environment are no NAME=VALUE and set nothing: %s", len(odd), strings.Join(odd[:min(len(odd), 3)], ", "))
}

// importConfig keeps the part of a foreign configuration that tare honours, besides the
// environment.
func importConfig(c v1.Config) Config {
	out := Config{
		Entrypoint: c.Entrypoint, Cmd: c.Cmd, WorkingDir: c.WorkingDir, User: c.User,
	}
	for v := range c.Volumes {
		out.Volumes = append(out.Volumes, v)
	}
	slices.Sort(out.Volumes)
	for p := range c.ExposedPorts {
		number, protocol, _ := strings.Cut(p, "/")
		n, err := strconv.Atoi(number)
		if err == nil && n > 0 && n < 1<<16 && (protocol == "" || protocol == "tcp") {
			out.Ports = append(out.Ports, n)
		}
	}
	slices.Sort(out.Ports)
	return out
}

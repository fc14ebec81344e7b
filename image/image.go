// Package image provides the root file systems that programs run in: built
// offline from distribution packages and our own programs, or imported from
// archives, directories and engines. An image is content-addressed; the same
// bytes serve bare metal (a directory), an OCI bundle and an engine (an archive).
//
// It starts nothing and knows no platform.
package image

// Image is one root file system and how to start its program.
type Image struct {
	// Name is for people: "redis", "alpine:3.20".
	Name string `json:"name"`
	// Digest is "sha256:..." over the file system's canonical layer (sorted
	// names, fixed times, numeric owners): equal bytes have equal digests, in
	// however many layers an engine has them.
	Digest string `json:"digest"`
	// Root is the unpacked file system. It is shared between trials: nobody
	// writes to it.
	Root string `json:"root"`
	// Archive is the same in docker-archive format ("docker load" takes it),
	// tagged Reference.
	Archive string `json:"archive"`
	// Reference is the name under which an engine knows the image after
	// loading Archive: "tare.local/redis:0123456789ab".
	Reference string `json:"reference"`
	// Size is the sum of file sizes in bytes, what upper layers hide included.
	Size   int64  `json:"size"`
	Config Config `json:"config"`
	// Packages are the distribution packages inside, "name version", sorted;
	// empty for imported images.
	Packages []string `json:"packages,omitempty"`
	// Warnings say how the image differs from what was asked, such as packages
	// newer than the lock file.
	Warnings []string `json:"warnings,omitempty"`
}

// Config is the part of the OCI image configuration that tare honours.
type Config struct {
	Env        []string `json:"env,omitempty"`
	Entrypoint []string `json:"entrypoint,omitempty"`
	Cmd        []string `json:"cmd,omitempty"`
	WorkingDir string   `json:"working_dir,omitempty"`
	User       string   `json:"user,omitempty"`
	Volumes    []string `json:"volumes,omitempty"`
	Ports      []int    `json:"ports,omitempty"`
}

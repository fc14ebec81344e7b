package platform

// Reaching is a platform that has networks of its programs' on which a port is served
// to nobody on the host.
type Reaching interface {
	Platform
	// Reaches reports whether a client on the host reaches a program's ports with the
	// setting, which the platform supports. The error is an *Unsupported. Launch refuses
	// a program with ports likewise.
	Reaches(s Setting) error
}

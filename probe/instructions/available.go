package instructions

// Available reports whether [Count] can be had here. The error is a
// *[probe.Missing].
func Available() error {
	_, err := library()
	return err
}

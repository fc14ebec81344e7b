package platform

import "context"

// Storing is a platform that can tell where on the host its programs' data lie.
type Storing interface {
	Platform
	// StoredAt gives the directory of the host below which the data directories of
	// a program lie that has the storage; empty for one in memory. It need not be
	// there yet. Nothing is made.
	StoredAt(ctx context.Context, s Storage) (dir string, err error)
}

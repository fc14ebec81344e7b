package swaptest

import (
	"os"
	"testing"

	"tare/kernel/filesystem/fusetest"
	"tare/kernel/swap"
)

// failingVariable allows swap that fails, on a host of which nothing else is to be lost.
const failingVariable = "TARE_TEST_FAILING_SWAP"

// Failing puts a device to use, until the test ends, whose reads and writes the test can have fail,
// and gives its path. What is to fail is told by the position on the device, in bytes: a page's is its
// offset in swap. Where none can be had, the test is skipped.
//
// It is a loop device on a file of [fusetest], which answers out of this program. Pages of any
// program may go there: so it is made only where TARE_TEST_FAILING_SWAP is set.
func Failing(t testing.TB, size int64) (device string, system *fusetest.System) {
	t.Helper()
	needRoot(t)
	if os.Getenv(failingVariable) == "" {
		t.Skip("swap that fails may end other programs: on a host where none matters, set " + failingVariable)
	}
	system = fusetest.Mount(t, size)
	if err := swap.Fill(t.Context(), system.File()); err != nil {
		t.Fatal(err)
	}
	device, held := attached(t, system.File())
	defer held.Close() // from then on its use holds it
	use(t, device, on(device))
	t.Cleanup(func() { system.Fail(nil) }) // before it is taken out of use
	return device, system
}

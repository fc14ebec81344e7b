package workload

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What fio 3.33 really printed, of 20 writes.
func TestFioSyncDrive(t *testing.T) {
	w := fioSync{}
	good := string(recorded(t, "fio-sync.json"))
	tr := &trial{params: resolve(t, w, "syncs", "20", "size", "100"), stdout: good, exit: Exit{Elapsed: time.Second}}
	if err := w.Drive(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	checkRecorded(t, w, tr)
	each := tr.records["sync"][0] + tr.records["write"][0]
	if got := tr.records["syncs"][0] * each; got < 999_999 || got > 1_000_001 {
		t.Errorf("%v a second of %v us each", tr.records["syncs"][0], each)
	}
	for name, c := range map[string]struct{ output, want string }{
		"fewer writes":    {strings.ReplaceAll(good, `"total_ios" : 20,`, `"total_ios" : 19,`), "19 times of 20"},
		"a failed job":    {strings.Replace(good, `"error" : 0`, `"error" : 28`, 1), "error 28"},
		"short writes":    {strings.ReplaceAll(good, `"short_ios" : 0`, `"short_ios" : 2`), "2 writes were short"},
		"never synced":    {strings.ReplaceAll(good, `"N" : 19`, `"N" : 0`), "0 of 20 writes were brought"},
		"cut short":       {good[:len(good)/2], "unexpected end"},
		"two jobs at all": {`{"jobs":[{},{}]}`, "2 jobs"},
	} {
		tr := &trial{params: tr.params, stdout: c.output}
		if err := w.Drive(t.Context(), tr); err == nil || !strings.Contains(err.Error(), c.want) || len(tr.records) > 0 {
			t.Errorf("%s: %v, want one about %q", name, err, c.want)
		}
	}
}

func TestFioSyncParams(t *testing.T) {
	for name, value := range map[string]string{"size": "0", "syncs": "9", "call": "sync"} {
		_, err := Resolve(fioSync{}, map[string]string{name: value})
		refusedAs[*WrongValue](t, err, name+"="+value)
	}
	program, err := fioSync{}.Program(resolve(t, fioSync{}, "size", "1000", "syncs", "50", "call", "fsync"))
	if err != nil {
		t.Fatal(err)
	}
	if program.DiskNeed != 50_000 || !strings.Contains(strings.Join(program.Args, " "), "--fsync=1") {
		t.Errorf("%+v", program)
	}
}

func FuzzParseFioSync(f *testing.F) {
	f.Add(recorded(f, "fio-sync.json"))
	f.Fuzz(func(t *testing.T, output []byte) {
		if s, err := parseFioSync(output, 20); err == nil && !(s.write > 0 && s.sync > 0) {
			t.Errorf("accepted %+v", s)
		}
	})
}

func TestRealFioSync(t *testing.T) {
	img := realImage(t, "fio")
	made := filepath.Join(img.Root, "data/file")
	t.Cleanup(func() { _ = os.Remove(made) })
	w := fioSync{}
	tr := launch(t, w, resolve(t, w, "syncs", "20", "size", "23"), img, func([]string) {}, syscall.CLONE_NEWPID)
	if err := w.Drive(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	checkRecorded(t, w, &tr.trial)
	if info, err := os.Stat(made); err != nil || info.Size() != 20*23 {
		t.Errorf("the file is %v, %v; want it to have grown to %d bytes", info, err, 20*23)
	}
}

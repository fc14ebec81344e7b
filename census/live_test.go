package census_test

import (
	"bufio"
	"io"
	"os/exec"
	"testing"

	"tare/census"
	"tare/probe/contents"
	"tare/probe/pagetable"
)

// cat starts a program that has answered once, and now waits.
func cat(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("needs cat: %v", err)
	}
	t.Cleanup(func() {
		if err := in.Close(); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	if _, err := io.WriteString(in, "ready\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("cat answers %q, %v", line, err)
	}
	return cmd.Process.Pid
}

// Two of the same program share their files' frames, and hold equal bytes in
// memory of their own.
func TestTwoRealProcesses(t *testing.T) {
	taker, _, err := pagetable.Open()
	if err != nil {
		t.Skipf("needs to read page tables: %v", err)
	}
	defer taker.Close()
	c, err := taker.Take(t.Context(), []pagetable.Process{{PID: cat(t), Group: 0}, {PID: cat(t), Group: 1}}, true)
	if err != nil {
		t.Fatal(err)
	}
	n := census.Of(c, []string{"one", "other"}, census.Options{})
	same(t, n, reference(c, 2))
	shared := func(k pagetable.Kind) census.Classes { return n.Kinds[k].Across }
	if code := shared(pagetable.Code); code.Groupable+code.SharedFrame == 0 {
		t.Errorf("two of one program share none of its code: %+v", code)
	}
	if heap := shared(pagetable.Heap); heap.Exclusive == 0 || heap.SharedFrame+heap.Groupable != 0 {
		t.Errorf("two programs started apart share a heap: %+v", heap)
	}
	pages := contents.NewPages()
	defer pages.Close()
	m, err := census.Save(t.Context(), c, []census.Member{{"one", "cat"}, {"other", "cat"}}, census.SavingOptions{Contents: pages.Read})
	if err != nil || pages.Err() != nil {
		t.Fatal(err, pages.Err())
	}
	if got := m.Images[0].Contents; got.Read == 0 || got.Distinct == got.Read || got.Read+got.Failed != got.Candidates {
		t.Errorf("two of one program hold nothing equal: %+v", got)
	}
	t.Logf("%s: %d entries, over processes %.0f %% groupable, %d of %d frames of memory of their own would be saved", c.Backend, n.All.Entries,
		100*n.All.Groupability(), m.All.Contents.Read-m.All.Contents.Distinct, m.All.Contents.Read)
}

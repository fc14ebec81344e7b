package workload

import (
	"math"
	"slices"
	"strings"
	"testing"

	"tare/image"
)

func TestStreamMPIDrive(t *testing.T) {
	w := streamMPI{}
	tr := &trial{params: resolve(t, w, "processes", "2"), stdout: string(recorded(t, "stream-mpi.jsonl"))}
	if err := w.Drive(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	checkRecorded(t, w, tr)
	for _, kernel := range streamKernels {
		all, best := tr.records[kernel+streamIterations], tr.records[kernel][0]
		if len(all) != 3 {
			t.Errorf("%s: %d iterations, want all but the first of four", kernel, len(all))
		}
		if most := slices.Max(all); math.Abs(best/most-1) > 1e-6 {
			t.Errorf("%s: the best is %g, of its iterations %g", kernel, best, most)
		}
		if average := tr.records[kernel+streamAverage][0]; average < slices.Min(all) || average > best {
			t.Errorf("%s: on average %g, of %v", kernel, average, all)
		}
	}
	tr = &trial{params: tr.params, exit: Exit{Code: 1}, stderr: "stream: array b is off by 0.5 on average"}
	refusedAs[*Ended](t, w.Drive(t.Context(), tr), "array b is off")
}

func TestStreamMPIProgram(t *testing.T) {
	program, err := streamMPI{}.Program(resolve(t, streamMPI{}, "elements", "50000000", "processes", "8", "stores", "plain"))
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Join(program.Args, " ")
	for _, want := range []string{"/usr/bin/mpiexec ", " -n 8 /usr/bin/stream-mpi ", " --elements 50000000", " --repetitions 20", " --stores plain"} {
		if !strings.Contains(line, want) {
			t.Errorf("%q lacks %q", line, want)
		}
	}
	// Over all ranks, and not for each.
	if least := int64(3 * 8 * 50_000_000); program.MemoryNeed < least || program.MemoryNeed > least+1<<30 {
		t.Errorf("it is said to need %d bytes, and the arrays have %d", program.MemoryNeed, least)
	}
	if !slices.Contains(program.Needs, image.MPIExec) || !slices.Contains(program.Needs, image.StreamMPIProgram) {
		t.Errorf("it is said to need %q", program.Needs)
	}
	for name, value := range map[string]string{"elements": "0", "processes": "1025", "repetitions": "1", "stores": "loud"} {
		_, err := Resolve(streamMPI{}, map[string]string{name: value})
		refusedAs[*WrongValue](t, err, name+"="+value)
	}
	_, err = Resolve(streamMPI{}, map[string]string{"elements": "3", "processes": "4"})
	refusedAs[*WrongValue](t, err, "an element for each of 4")
}

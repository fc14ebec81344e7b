package gpu

import (
	"encoding/json"
	"errors"
	"time"

	"tare/lab"
	activity "tare/probe/gpu"
	"tare/record"
)

// library is the file of the probe's library, as probe/gpu builds it.
const library = "libtaregpu.so"

// activityOf is what the traces of a directory came to: an error where they hold no call.
func activityOf(dir string) (*activity.Summary, error) {
	traces, err := activity.ReadDir(dir, 0)
	if err != nil {
		return nil, err
	}
	s := activity.Summarize(traces...)
	if s.Processes == 0 {
		return nil, errors.New("the activity probe left no trace: the program did not load its library")
	}
	if s.API.Time.Count == 0 {
		return nil, errors.New("the activity probe recorded no call of the driver: " + complaint(s))
	}
	return s, nil
}

// recordActivity reads the traces of a trial, and records what they came to.
func recordActivity(b lab.Bench, dir string) error {
	s, err := activityOf(dir)
	if err != nil {
		return err
	}
	b.Record(metricAPITime, s.API.Time.Sum.Seconds())
	if k := s.KernelTime(); k > 0 {
		kernels, api := s.Shares()
		b.Record(metricKernelTime, k.Seconds())
		b.Record(metricKernelShare, 100*kernels)
		b.Record(metricAPIShare, 100*api)
	}
	for _, m := range []struct {
		metric string
		took   time.Duration
	}{
		{metricCompile, compiled(s)}, {metricLoads, s.JIT.Loads.Sum + s.JIT.Links.Sum + s.JIT.Firsts.Sum},
		{metricMalloc, allocated(s)},
		{metricTo, copied(s, activity.HostToDevice)}, {metricFrom, copied(s, activity.DeviceToHost)},
	} {
		if m.took > 0 {
			b.Record(m.metric, m.took.Seconds())
		}
	}
	b.Record(metricLost, float64(lost(s.Lost)))
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	b.Attach(record.Attachment{Name: AttachmentActivity, MediaType: "application/json", Data: text})
	return nil
}

func complaint(s *activity.Summary) string {
	if len(s.Complaints) > 0 {
		return s.Complaints[0]
	}
	return "the cause is unknown"
}

// compiled is the time of compiling PTX; 0 where it is unknown.
func compiled(s *activity.Summary) time.Duration {
	if s.JIT.Known {
		return s.JIT.Compile.Sum
	}
	return s.JIT.Compiling.Sum
}

// allocated is the time of allocating memory of the device: the runtime's calls where they
// are seen, which the driver's are part of.
func allocated(s *activity.Summary) time.Duration {
	for _, name := range []string{"cudaMalloc", "cuMemAlloc"} {
		if c, ok := s.Call(name); ok {
			return c.Time.Sum
		}
	}
	return 0
}

// copied is the time of all copies of a direction.
func copied(s *activity.Summary, direction activity.Direction) time.Duration {
	var sum time.Duration
	for _, c := range s.Copies {
		if c.Direction == direction {
			sum += c.Time.Sum
		}
	}
	return sum
}

// lost counts what is in no figure.
func lost(l activity.Lost) int64 {
	return l.Calls + l.Work + l.Other + l.Full + l.Capture + l.Failed + l.Unfinished + l.Dropped + l.Unknown +
		l.Versions
}

package gpu

import (
	"errors"
	"fmt"
)

// Limits are a device's own, as program devicelimits measured them.
type Limits struct {
	// Device is the one that they were measured on.
	Device Device
	// CopyBytesPerSecond is a copy's from memory to memory, bytes read and written together,
	// and TriadBytesPerSecond that of a = b + q c: the best of the timed iterations.
	CopyBytesPerSecond, TriadBytesPerSecond float64
	// FMAFlopsPerSecond is the rate of fused multiply-adds of 32-bit floats in registers, two
	// operations each: the best of the timed iterations.
	FMAFlopsPerSecond float64
	// LaunchSeconds is the time from one empty kernel's start to the next one's in a stream.
	LaunchSeconds float64
}

// LimitsOf reads the limits off a result of devicelimits.
func LimitsOf(r Result) (Limits, error) {
	if r.Program != DeviceLimits {
		return Limits{}, fmt.Errorf("the device's limits are what %s measures: this is a result of %s", DeviceLimits, r.Program)
	}
	l := Limits{
		Device:              r.Device,
		CopyBytesPerSecond:  r.Figures["copy_bytes_per_second"],
		TriadBytesPerSecond: r.Figures["triad_bytes_per_second"],
		FMAFlopsPerSecond:   r.Figures["fma_flops_per_second"],
		LaunchSeconds:       r.Figures["launch_seconds"],
	}
	for _, x := range []float64{l.CopyBytesPerSecond, l.TriadBytesPerSecond, l.FMAFlopsPerSecond, l.LaunchSeconds} {
		if !(x > 0) {
			return Limits{}, errors.New("the result of " + DeviceLimits + " lacks a limit: run it again with more --iterations")
		}
	}
	return l, nil
}

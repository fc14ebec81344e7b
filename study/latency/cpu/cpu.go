// Package cpu measures how the CPU time that a container is granted changes a
// service's latency. It repeats the first three experiments of S4 (The Impact of
// Docker Containers on Service Latency, section 3.4), and adds some that S4 left
// for later.
//
//	shares     bare metal against a container with CPU shares, on a core of its own (S4.1)
//	quota      a container under quotas, in a closed loop (S4.2)
//	open       the same in an open loop: requests come on a schedule
//	burst      quotas with and without unused quota saved up, in the open loop
//	neighbour  a second container on the core, multiplying matrices: the period
//	           shared out by quotas (S4.3), by shares, and the service in a
//	           real-time class
//
// The service has one core. Everything that tare runs has another. What could not
// be moved off the service's core is counted: interrupts taken there, and CPU time
// of other programs.
//
// S4 had the client on a second machine, with a round trip of 240 us. Here it is on
// the same host, over loopback. The CPU's part of a round trip is therefore larger,
// and a quota is reached earlier.
package cpu

import (
	"time"

	"tare/study/latency/service"
	"tare/workload"
)

// The experiments.
const (
	Shares    = "shares"
	Quota     = "quota"
	Open      = "open"
	Burst     = "burst"
	Neighbour = "neighbour"
)

// Experiments lists them in the order in which people see them.
var Experiments = []string{Shares, Quota, Open, Burst, Neighbour}

// Factors of this study's conditions.
const (
	FactorExperiment = "experiment"
	factorQuota      = "quota"  // of the service, in a period: "1.5ms"
	factorPeriod     = "period" // "10ms"
	factorBurst      = "burst"
	factorBeside     = "beside" // what else runs on the core
	factorGranted    = "by"     // how the core is shared out: quota, shares, real-time

	besideNothing = "nothing"
	besideMatrix  = "matrix"
	aloneMatrix   = "matrix alone"

	byQuota    = "quota"
	byShares   = "shares"
	byRealTime = "real-time"
)

// S4's parameters.
var (
	// Quotas are S4's, in a period of 10 ms.
	Quotas = []time.Duration{
		1000 * time.Microsecond, 1500 * time.Microsecond, 2000 * time.Microsecond,
		2500 * time.Microsecond, 3000 * time.Microsecond,
		4000 * time.Microsecond, 5000 * time.Microsecond, 7000 * time.Microsecond, 10000 * time.Microsecond,
	}
	// Period is S4's.
	Period = 10 * time.Millisecond
	// NeighbourQuotas are S4's for the service, the neighbour having the rest.
	NeighbourQuotas = []time.Duration{
		5 * time.Millisecond, 6 * time.Millisecond, 7 * time.Millisecond, 8 * time.Millisecond, 9 * time.Millisecond,
	}
)

// MatrixSize is that of S4's matrices.
const MatrixSize = 512

// The neighbour's metrics.
const (
	matrixTime = "matrix"
	matrixCPU  = "matrix-cpu"
)

func matrixMetrics() []workload.Metric {
	return []workload.Metric{
		{Name: matrixTime, Unit: "us", Better: workload.Lower, Doc: "mean time of a matrix multiplication of the neighbour"},
		{Name: matrixCPU, Unit: "us", Better: workload.Lower, Doc: "mean CPU time of one"},
	}
}

// Covariates: other activity on the service's core.
const (
	interrupts = "interrupts_per_s"
	coreBusy   = "core_busy_percent" // with the service and all other programs
	clockMHz   = "cpu_mhz"
)

func metrics(neighbour bool) []workload.Metric {
	m := service.Metrics()
	if neighbour {
		m = append(m, matrixMetrics()...)
	}
	return m
}

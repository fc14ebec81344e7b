package sched_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"tare/kernel/kallsyms"
	"tare/probe/sched"
)

// startContainer stands for a platform's start, and serves for the check that
// finds when its program is ready.
func startContainer(id string) error { return nil }
func serves(id string) error         { return nil }

// How a start is followed, as it is under load: when its program's first
// instruction came, after the request was sent.
func ExampleTracer() {
	tracer, err := sched.Start()
	if err != nil {
		fmt.Println(err) // says what this host lacks
		return
	}
	defer tracer.Stop()

	const id = "7d3ad0a8d3a6"
	start := tracer.Follow(id, []string{"redis-server", "--port", "6379"})
	defer start.Close()
	sent := sched.Now()
	if err := startContainer(id); err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	marks, err := start.Application(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("first instruction after", marks.Application-sent)
}

// How one start's time line is made: what it waited for, phase by phase.
func ExampleStartRecording() {
	table, err := kallsyms.Load()
	if err != nil {
		fmt.Println(err)
		return
	}
	symbols := func(address uint64) string {
		symbol, _, _ := table.Lookup(address)
		return symbol.Name
	}
	recorder, err := sched.StartRecording()
	if err != nil {
		fmt.Println(err)
		return
	}
	const id = "7d3ad0a8d3a6"
	args := []string{"redis-server", "--port", "6379"}
	sent := sched.Now()
	failed := startContainer(id)
	if failed == nil {
		failed = serves(id)
	}
	ready := sched.Now()
	recording, err := recorder.Stop()
	if err != nil || failed != nil {
		fmt.Println(err, failed)
		return
	}
	marks, ok := recording.Marks(id, args)
	if !ok {
		fmt.Println("its program was not executed")
		return
	}
	marks.Sent, marks.Ready = sent, ready
	path := sched.CriticalPath(recording.Events, sent, sched.Moment{Time: ready, PID: marks.PID}, symbols)
	for _, phase := range sched.Phases(path, marks, recording.Component(os.Getpid())) {
		fmt.Println(phase.Name, phase.To-phase.From, phase.Share, phase.Causes)
	}
}

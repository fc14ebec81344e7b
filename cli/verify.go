package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tare/kernel/host"
	"tare/lab"
	"tare/record"
	"tare/study/diagnose"
	"tare/study/weigh"
)

// verifyFlags are those of diagnose --verify.
type verifyFlags struct {
	id     string
	blocks int
	copy   copyFlags
}

// usualVerified is the number of blocks of a verification.
const usualVerified = 5

func (f *verifyFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.id, "verify", "", "measure whether the setting proposed by the finding `ID` ends it, on a copy of the container; a client after -- loads the copy, or --replay")
	flags.IntVar(&f.blocks, "blocks", usualVerified, "number of blocks of --verify: each observes the copy with both settings")
	f.copy.register(flags)
}

// stray refuses flags that mean nothing without --verify.
func (f *verifyFlags) stray(flags *pflag.FlagSet) error {
	flag := f.copy.changed(flags)
	if flags.Changed("blocks") {
		flag = "--blocks"
	}
	if flag != "" {
		return usageError("%s is for --verify", flag)
	}
	return nil
}

// verify finds a finding again, and measures what its setting saves a copy.
func (a *app) verify(cmd *cobra.Command, f *diagnoseFlags, args []string) error {
	name, v := diagnose.ContainerOf(f.verify.id), f.verify
	var client []string
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		args, client = args[:dash], args[dash:]
	}
	switch {
	case name == "":
		return usageError("--verify %s: want the id of a finding, CONTAINER/KIND, such as web/throttled", v.id)
	case f.all || len(args) > 0:
		return usageError("--verify names its container: name no other beside it")
	case f.failOn != "" || f.evidence || f.watch || f.latency != "":
		return usageError("--verify goes without --fail-on, --evidence, --watch and --latency-from")
	case v.blocks < 3 || v.blocks > 100:
		return usageError("--blocks %d: want 3 to 100", v.blocks)
	case f.span < diagnose.Shortest || f.span > time.Minute:
		return usageError("--for %v: with --verify want %v to %v", f.span, diagnose.Shortest, time.Minute)
	}
	if err := needRoot(); err != nil {
		return err
	}
	dir, err := a.stateDir()
	if err != nil {
		return err
	}
	if err := writable(f.json); err != nil {
		return err
	}
	load, notes, err := v.copy.load(client)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	found, _, err := foundRunning(ctx, false, []string{name}, nil)
	if err != nil {
		return err
	}
	if err := weigh.Uncopyable(found[0]); err != nil {
		return err
	}
	result, err := diagnose.Run(ctx, found, true, f.span)
	if err != nil {
		return err
	}
	promise, err := result.PromiseOf(found[0].Name + strings.TrimPrefix(v.id, name))
	if err != nil {
		return err
	}
	m, err := a.measuring(ctx, dir, "diagnose", f.out, f.json)
	if err != nil {
		return err
	}
	defer m.close()
	on, err := studyHostFor(ctx, m.session.Platforms)
	if err != nil {
		return err
	}
	span := f.span
	if load.Replay != nil { // as long as the load lasts
		span = max(2*time.Second, load.Replay.Moments[len(load.Replay.Moments)-1])
	}
	d, err := promise.Verify(ctx, diagnose.VerifyOptions{
		Container: found[0], Load: load, Blocks: v.blocks, Span: span, Seed: drawSeed(), Host: on.Host,
	})
	if err != nil {
		return err
	}
	d.Plan.Notes = append(d.Plan.Notes, notes...)
	run, err := m.lab.Run(ctx, d, record.Run{
		ID: record.NewID("verify", time.Now(), uint16(drawSeed())), Command: a.args, Version: versionText(),
		Started: time.Now(), Status: record.Running, Host: m.fingerprint(d),
	})
	m.progress.clear()
	if interrupted := (*lab.Interrupted)(nil); errors.As(err, &interrupted) {
		return fmt.Errorf("%s: nothing is verified; its trials are kept as run %s", interrupted.Reason, interrupted.Run)
	}
	if err != nil {
		return err
	}
	verified := promise.Verified(run)
	here := hostRecord(host.Read("/"))
	sheet := verified.Sheet(here)
	if err := a.presentLive("verify", sheet, verified.Document(here), f.out, f.json); err != nil {
		return err
	}
	switch verified.Outcome {
	case diagnose.Held:
		return nil
	case diagnose.Broken:
		return withCode(exitThreshold, fmt.Errorf("%s: the promise did not hold", v.id))
	}
	return withCode(exitInconclusive, fmt.Errorf("%s: %s", v.id, verified.Outcome))
}

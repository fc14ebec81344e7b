package vm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"tare/kernel/host"
	"tare/platform"
)

// trial is whether KVM boots a guest on this host, as it was found out: /dev/kvm may
// answer and the guest not run, where KVM is nested in a hypervisor that emulates what
// it lacks. It is remembered for as long as the host is up.
type trial struct {
	HostBoot string `json:"host_boot"` // /proc/sys/kernel/random/boot_id
	Kernel   string `json:"kernel"`    // the host's
	Failed   string `json:"failed"`    // why not; empty where a guest booted
}

const trialFile = "kvm.json"

// hostBoot names this boot of the host.
func hostBoot() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// tryKVM boots a machine by KVM, once. The error is a *platform.Missing.
func (p *Pool) tryKVM(ctx context.Context) error {
	p.trying.Lock()
	defer p.trying.Unlock()
	if err := KVM.check(); err != nil {
		return err
	}
	if p.tried == nil {
		dir, err := p.machines()
		if err != nil {
			return err
		}
		now := thisBoot()
		found, ok := readTrial(filepath.Join(dir, trialFile))
		if !ok || !found.of(now) {
			if now.Failed, err = p.bootKVM(ctx); err != nil {
				return err
			}
			found = now
			if err := writeTrial(filepath.Join(dir, trialFile), found); err != nil {
				return err
			}
		}
		p.tried = &found
	}
	return p.outcome(*p.tried)
}

// recalled is what tryKVM found on this host before. The error is a *platform.Missing,
// also where it has never tried.
func (p *Pool) recalled() error {
	found, ok := readTrial(filepath.Join(p.options.StateDir, "vm", trialFile))
	if !ok || !found.of(thisBoot()) {
		return &platform.Missing{What: "KVM answers here, and has not been asked to run a guest since the host was booted", Mend: "tare weigh redis --platform bare,vm:kvm/bare tries"}
	}
	return p.outcome(found)
}

func (p *Pool) outcome(t trial) error {
	if t.Failed == "" {
		return nil
	}
	return &platform.Missing{
		What: "KVM answers here and runs no guest (" + t.Failed + ")",
		Mend: "vm:tcg runs anywhere, slowly; have this host's own hypervisor allow nested virtualisation, and remove " + filepath.Join(p.options.StateDir, "vm", trialFile) + " to try again",
	}
}

// thisBoot is a trial of the host as it is, of which nothing is known yet.
func thisBoot() trial { return trial{HostBoot: hostBoot(), Kernel: host.Read("/").Kernel} }

// of tells that a trial was made on the host as it is.
func (t trial) of(now trial) bool { return t.HostBoot == now.HostBoot && t.Kernel == now.Kernel }

// bootKVM tries it. why is empty where a guest has booted, which is then kept for whoever
// needs one like it.
func (p *Pool) bootKVM(ctx context.Context) (why string, err error) {
	h, err := p.host()
	if err != nil {
		return "", err
	}
	l, err := p.acquire(ctx, wanted{shape: shape{engine: KVM, cpus: len(h.cpus), memory: h.ordinary()}})
	var failed *BootError
	switch {
	case err == nil:
		l.release(ctx)
		return "", nil
	case ctx.Err() != nil || !errors.As(err, &failed):
		return "", err // nothing was found out
	}
	why = fmt.Sprintf("%v", failed.Err)
	if _, err := os.Stat("/sys/module/kvm_pvm"); err == nil {
		why = "it is kvm_pvm, which needs no support by the processor and runs only kernels made for it; " + why
	}
	if failed.Console != "" {
		why += "; the console's end: " + failed.Console
	}
	return strings.Join(strings.Fields(why), " "), nil
}

func readTrial(path string) (t trial, ok bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return t, false
	}
	return t, json.Unmarshal(text, &t) == nil && t.HostBoot != ""
}

func writeTrial(path string, t trial) error {
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	part := path + ".part"
	if err := os.WriteFile(part, append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(part, path)
}

// Resolve chooses the engine of a path that names none: KVM where it boots a guest, else
// TCG. The first time on a host it finds out by booting one.
func (p *Pool) Resolve(ctx context.Context, n Name) Name {
	if n.Engine != "" {
		return n
	}
	n.Engine = TCG
	if p.tryKVM(ctx) == nil {
		n.Engine = KVM
	}
	return n
}

package daemon

import (
	"context"
	"errors"
	"strings"
	"time"

	"tare/annex/bound"
	"tare/annex/config"
	"tare/annex/monitor"
	"tare/container"
)

// inForce is the configuration in force.
func (h *Host) inForce() config.Config {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.current
}

// read reads the configuration anew, for a daemon that manages at present, or does not.
func (h *Host) read(ctx context.Context, path string, managing bool) (Settings, []string, error) {
	loaded, err := config.Load(path)
	if err != nil {
		return Settings{}, nil, err
	}
	restart := config.Restarts(h.config, loaded)
	c := config.InForce(h.config, loaded)
	begins := c.Mode == config.Manage && !managing
	if begins && h.rebound == nil {
		return Settings{}, nil, &Lacking{"there was no swap when this daemon was started", "put some to use, and start it again"}
	}
	all, err := h.found(ctx)
	if err != nil {
		return Settings{}, nil, err
	}
	_, conflicts := check(ctx, c, all)
	_, doubtful := Doubts(loaded, all)
	if refused := errors.Join(conflicts, doubtful); refused != nil && begins {
		return Settings{}, nil, refused
	}
	// One that manages goes on though swap has filled, which each look tells, or another manager
	// has come.
	full, none := new(bound.Full), new(Lacking)
	if doubtful != nil && !errors.As(doubtful, &full) && !errors.As(doubtful, &none) {
		return Settings{}, nil, doubtful
	}
	if c.Mode == config.Manage {
		if err := h.claimed.take(); err != nil {
			return Settings{}, nil, err
		}
	}
	h.mu.Lock()
	h.current = c
	h.mu.Unlock()
	if h.rebound != nil {
		h.rebound(c)
	}
	s := h.settings(path, c)
	s.Warnings = unstarted(restart)
	return s, restart, nil
}

// eachLine gives each of several errors a line of its own.
func eachLine(err error) []string {
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

// settings are what a configuration comes to.
func (h *Host) settings(path string, c config.Config) Settings {
	return Settings{
		Mode: c.Mode, Classes: c.Class, Policy: policy(c), Protect: c.Protect.Critical,
		Doubts: func(all []container.Container) []string {
			doubted, err := Doubts(c, all)
			return append(doubted, eachLine(err)...)
		},
		Scan:          monitor.Pace{Least: c.Scan.Least, Most: c.Scan.Most},
		CriticalLimit: c.Pressure.Critical,
		StopWithin:    c.Pressure.StopWithin,
		File:          path,
		Loaded:        time.Now(),
		Defended:      c.Memory.Defend,
	}
}

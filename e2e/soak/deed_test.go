// SPDX-License-Identifier: Apache-2.0

// Package soak kills commands that change limits, many times, and checks the recovery.
package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"testing"

	"weir/core/daemon"
	"weir/core/engine"
	"weir/internal/child"
	"weir/internal/direction"
	"weir/internal/dscp"
	"weir/kernel/cgroup"
	"weir/kernel/netns"
	"weir/kernel/sockets/rescuer"
	"weir/modules"
	"weir/modules/cc"
	"weir/modules/class"
	"weir/modules/limit/police"
	"weir/modules/limit/scoped"
)

func TestMain(m *testing.M) {
	child.Main(child.Parts{"deed": carryOut, rescuer.Part: rescuer.Rescue, cgroup.SocketsPart: cgroup.ServeSockets})
	os.Exit(run(m))
}

// run has the commands of these tests register in a separate folder, so that no other remains are
// mistaken for theirs.
func run(m *testing.M) int {
	runs, err := os.MkdirTemp("", "weir-soak")
	if err == nil {
		err = os.Setenv("WEIR_RUN_DIR", runs)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(runs) }()
	return m.Run()
}

// deed is an action of a process that is killed meanwhile.
type deed struct {
	What              string // apply, daemon, release or run
	State, Pins, Root string
	Namespace         string // namespace of the sockets
	Scavenge          bool   // commands have a congestion control of Weir's
	Controls          string // prefix of the names of congestion controls
	File              string // the policy, or the script of a command
}

// engine returns an engine for the sockets of one namespace.
func (d deed) engine() (*engine.Engine, error) {
	all := modules.All()
	for i, r := range all {
		if _, controls := r.(cc.Module); controls {
			all[i] = cc.Named(d.Controls)
		}
	}
	language, err := modules.Language(all)
	return &engine.Engine{Modules: all, Language: language, StateDir: d.State, PinDir: d.Pins, CgroupRoot: d.Root,
		Sockets: func(each func(*netns.Namespace) error) error {
			ns, err := netns.Open(d.Namespace)
			if err != nil {
				return err
			}
			defer func() { _ = ns.Close() }()
			return each(ns)
		}}, err
}

// carryOut executes a deed and reports it. A daemon and a command run until they are killed.
func carryOut(in io.Reader, out io.Writer) error {
	var d deed
	if err := json.NewDecoder(in).Decode(&d); err != nil {
		return err
	}
	e, err := d.engine()
	if err != nil {
		return err
	}
	switch d.What {
	case "release":
		_, err = e.Release()
	case "run":
		treatments := []scoped.Treatment{mark}
		if d.Scavenge {
			treatments = append(treatments, d.control)
		}
		_, err = scoped.Run(context.Background(), scoped.Command{Args: []string{"bash", "-c", d.File}, Treatments: treatments,
			Limits: map[direction.Direction]*police.Limit{direction.Egress: {Rate: 1_000_000}}})
	case "daemon":
		err = (&daemon.Service{Engine: e, Policy: d.File, Log: slog.New(slog.DiscardHandler)}).Run(context.Background())
	case "apply":
		err = apply(e, d.File)
	}
	if err == nil {
		_, err = fmt.Fprintln(out, "done")
	}
	return err
}

// mark and control do the same as weir run --class lbe.
func mark(group string) (io.Closer, error) { return class.Mark(group, dscp.LowEffort) }

func (d deed) control(group string) (io.Closer, error) {
	installed, err := cc.Install("scavenger", cc.Options{Name: d.Controls + "run"})
	if err != nil {
		return nil, err
	}
	return installed, installed.Attach(group)
}

func apply(e *engine.Engine, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	p, err := e.Language.Parse(file, text)
	if err == nil {
		_, err = e.Apply(p)
	}
	return err
}

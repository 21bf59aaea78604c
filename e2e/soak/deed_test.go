// SPDX-License-Identifier: Apache-2.0

// Package soak kills what changes limits, again and again, and looks whether it was made good.
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
	"weir/kernel/sockets/keeper"
	"weir/modules"
	"weir/modules/cc"
	"weir/modules/class"
	"weir/modules/limit/police"
	"weir/modules/limit/scoped"
)

func TestMain(m *testing.M) {
	child.Main(child.Parts{"deed": carryOut, keeper.Part: keeper.Keep, cgroup.SocketsPart: cgroup.ServeSockets})
	os.Exit(run(m))
}

// run has the commands of these tests register in a folder of their own, so that no leftover of
// others is taken for one of theirs.
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

// deed is what is done in a process that is killed meanwhile.
type deed struct {
	What              string // apply, daemon, release or run
	State, Pins, Root string
	Namespace         string // whose sockets are adopted and set free
	Scavenge          bool   // commands have a congestion control of Weir's
	Controls          string // begins the names of congestion controls
	File              string // the policy, or the script of a command
}

// engine is one whose sockets are those of one namespace.
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

// carryOut does a deed and says so. A daemon and a command go on until they are killed.
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

// mark and control do to a command what weir run --class lbe does.
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

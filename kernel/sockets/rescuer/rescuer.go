// SPDX-License-Identifier: Apache-2.0

// Package rescuer resets sockets after the process that steers them has ended, even by kill -9.
// Without it open sockets would keep their last pacing rate or receive-window bound.
package rescuer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/cilium/ebpf"

	"weir/internal/child"
	"weir/internal/wait"
	"weir/kernel/cgroup"
	"weir/kernel/netns"
	"weir/kernel/sockets"
)

// Part is the name under which main and TestMain register [Rescue] with child.Main.
const Part = "sockets-rescuer"

const (
	// rescueTime limits the duration of the reset.
	rescueTime = 10 * time.Second
	// pollInterval is the polling interval for the end of steering, which has no event.
	pollInterval = 10 * time.Millisecond
)

// Rescuer is a process that waits for the end of steering.
type Rescuer struct{ process *child.Process }

// Start starts a rescuer for all rescues. It outlives this process and ctx.
func Start(ctx context.Context, rescues ...sockets.Rescue) (*Rescuer, error) {
	process, err := child.StartIn(context.WithoutCancel(ctx), Part, os.Stderr, func(attr *syscall.SysProcAttr) error {
		attr.Pdeathsig = 0 // it must survive its parent
		return nil
	})
	if err != nil {
		return nil, err
	}
	r := &Rescuer{process}
	err = json.NewEncoder(process.In).Encode(rescues)
	if err == nil {
		_, err = bufio.NewReader(process.Out).ReadByte()
	}
	if err != nil {
		return nil, fmt.Errorf("have sockets set free: %w", errors.Join(err, r.Stop()))
	}
	return r, nil
}

// Stop makes the rescuer reset the sockets now and waits for it. The caller must have ended
// steering.
func (r *Rescuer) Stop() error { return r.process.Stop(2 * rescueTime) }

// Rescue reads the rescues, reports when it is ready, waits for the end of its input and of
// steering, and resets the sockets of this network namespace and of the cgroups' processes.
func Rescue(in io.Reader, out io.Writer) error {
	// Each command has one rescuer, which is idle meanwhile.
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(-1)
	// A service manager kills all processes of a service with one of them.
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	var rescues []sockets.Rescue
	if err := json.NewDecoder(in).Decode(&rescues); err != nil {
		return nil // no steering yet
	}
	programs := make([]*ebpf.Program, len(rescues))
	for i, r := range rescues {
		var err error
		if programs[i], err = r.Open(); err != nil {
			return err
		}
		defer func() { _ = programs[i].Close() }()
	}
	if _, err := fmt.Fprintln(out); err != nil {
		return nil
	}
	_, _ = io.Copy(io.Discard, in) // until the parent closes it or dies
	ctx, cancel := context.WithTimeout(context.Background(), rescueTime)
	defer cancel()
	var all []error
	for i, r := range rescues {
		all = append(all, await(ctx, r), free(programs[i], r.Cgroup)) // a repeated reset is harmless
	}
	return errors.Join(all...)
}

// await waits for the end of steering.
func await(ctx context.Context, r sockets.Rescue) error {
	for {
		if ended, err := r.Ended(); ended || err != nil {
			return err
		}
		if err := wait.For(ctx, pollInterval); err != nil {
			return fmt.Errorf("wait for the end of the rescuer of sockets: %w", err)
		}
	}
}

func free(program *ebpf.Program, group string) error {
	paths := []string{"/proc/self/ns/net"}
	pids, err := cgroup.Cgroup{Path: group}.AllProcesses()
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	for _, pid := range pids {
		paths = append(paths, fmt.Sprintf("/proc/%d/ns/net", pid))
	}
	seen := map[uint64]bool{}
	all := []error{err}
	for _, path := range paths {
		ns, err := netns.OpenPath(path)
		if err != nil {
			continue // an ended process
		}
		if inode, err := ns.Inode(); err == nil && !seen[inode] {
			seen[inode] = true
			all = append(all, sockets.VisitTCP(ns, program))
		}
		_ = ns.Close()
	}
	return errors.Join(all...)
}

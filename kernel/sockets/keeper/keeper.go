// SPDX-License-Identifier: Apache-2.0

// Package keeper has sockets set free once nothing steers them any more, kill -9 of the process
// that does included: they would keep for as long as they are open what was set last, as a pace or
// a bound of their receive window.
package keeper

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

// Part is the name under which main and TestMain register [Keep] with child.Main.
const Part = "sockets-keeper"

const (
	// keepTime is how long the process may take once it is to do its work.
	keepTime = 10 * time.Second
	// keepLook is the time between two looks whether steering has ended, of which nobody tells.
	keepLook = 10 * time.Millisecond
)

// Keeper is a process that waits for the end of what steers sockets.
type Keeper struct{ process *child.Process }

// Start starts one for all of the rescues. It outlives this process, and ctx.
func Start(ctx context.Context, rescues ...sockets.Rescue) (*Keeper, error) {
	process, err := child.StartIn(context.WithoutCancel(ctx), Part, os.Stderr, func(attr *syscall.SysProcAttr) error {
		attr.Pdeathsig = 0 // it is there for what comes after its parent's death
		return nil
	})
	if err != nil {
		return nil, err
	}
	k := &Keeper{process}
	err = json.NewEncoder(process.In).Encode(rescues)
	if err == nil {
		_, err = bufio.NewReader(process.Out).ReadByte()
	}
	if err != nil {
		return nil, fmt.Errorf("have sockets set free: %w", errors.Join(err, k.Stop()))
	}
	return k, nil
}

// Stop has it set the sockets free now, and waits for that: nothing may steer them any more.
func (k *Keeper) Stop() error { return k.process.Stop(2 * keepTime) }

// Keep reads what it is about, answers once it can do its work, waits for the end of its input and
// of what steers the sockets, and sets those of this network namespace and of those of the cgroups'
// processes free.
func Keep(in io.Reader, out io.Writer) error {
	// There is one for each command, which does next to nothing.
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(-1)
	// A service's manager ends all its processes when one was killed.
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	var rescues []sockets.Rescue
	if err := json.NewDecoder(in).Decode(&rescues); err != nil {
		return nil // nothing steers yet
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
	_, _ = io.Copy(io.Discard, in) // until whoever holds the other end closes it, or dies
	ctx, cancel := context.WithTimeout(context.Background(), keepTime)
	defer cancel()
	var all []error
	for i, r := range rescues {
		all = append(all, await(ctx, r), free(programs[i], r.Cgroup)) // what was in vain does no harm
	}
	return errors.Join(all...)
}

// await waits for the end of what steers sockets.
func await(ctx context.Context, r sockets.Rescue) error {
	for {
		if ended, err := r.Ended(); ended || err != nil {
			return err
		}
		if err := wait.For(ctx, keepLook); err != nil {
			return fmt.Errorf("wait for the end of what steers sockets: %w", err)
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
			continue // a process that has ended
		}
		if inode, err := ns.Inode(); err == nil && !seen[inode] {
			seen[inode] = true
			all = append(all, sockets.VisitTCP(ns, program))
		}
		_ = ns.Close()
	}
	return errors.Join(all...)
}

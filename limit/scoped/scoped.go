// SPDX-License-Identifier: Apache-2.0

// Package scoped runs one command, and all it starts, under a limit.
//
// The limit lives as long as the caller: when the caller is killed the command goes on without it,
// and the cgroup that it leaves is removed by the next call.
package scoped

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"weir/internal/fault"
	"weir/internal/kernel/cgroup"
	"weir/limit"
)

const prefix = "weir-run-"

// Command is what to run and how much of the network it may use. A direction without a limit is
// left alone.
type Command struct {
	Args   []string
	Limits map[limit.Direction]*limit.Limit
	// Waiting is called once when the command has ended and processes that it started have not.
	Waiting func(processes int)
}

// Outcome is how the command ended and what it used.
type Outcome struct {
	Status  int // the command's exit status; 128 + signal if a signal ended it
	Elapsed time.Duration
	Counted map[limit.Direction]limit.Counters // of the directions that were limited
}

// Run runs the command to its end and to the end of every process that it started. When ctx ends
// they are terminated.
func Run(ctx context.Context, c Command) (Outcome, error) {
	if err := removeStale(); err != nil {
		return Outcome{}, err
	}
	path, err := exec.LookPath(c.Args[0])
	if err != nil {
		return Outcome{}, fault.New(fault.Usage, "check its name, or write its whole path", "find command: %w", err)
	}
	plane, err := limit.Load(1)
	if err != nil {
		return Outcome{}, err
	}
	defer func() { _ = plane.Close() }()
	group, err := cgroup.Create("", prefix+strconv.Itoa(os.Getpid()))
	if err != nil {
		return Outcome{}, err
	}
	defer func() { _ = group.Remove() }()
	if err := impose(plane, group, c); err != nil {
		return Outcome{}, err
	}
	started := time.Now()
	status, err := execute(ctx, path, c, group)
	if err != nil {
		return Outcome{}, err
	}
	return account(plane, c, Outcome{Status: status, Elapsed: time.Since(started)})
}

// impose puts the limits on the cgroup.
func impose(plane *limit.DataPlane, group cgroup.Cgroup, c Command) error {
	id, err := group.ID()
	if err != nil {
		return err
	}
	if err := plane.AssignCgroup(id, 0); err != nil {
		return err
	}
	for direction, l := range c.Limits {
		if err := plane.Set(0, direction, *l); err != nil {
			return fault.Wrap(fmt.Errorf("limit %s: %w", direction, err), fault.Usage, "choose another rate")
		}
	}
	return plane.Attach(group.Path)
}

// execute starts the command inside the cgroup and waits until the cgroup is empty.
func execute(ctx context.Context, path string, c Command, group cgroup.Cgroup) (int, error) {
	directory, err := os.Open(group.Path)
	if err != nil {
		return 0, fmt.Errorf("open cgroup: %w", err)
	}
	defer func() { _ = directory.Close() }()
	cmd := exec.Command(path, c.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(directory.Fd())}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start %s: %w", c.Args[0], err)
	}
	stop := context.AfterFunc(ctx, func() { signalAll(group, syscall.SIGTERM) })
	defer stop()
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, fmt.Errorf("wait for %s: %w", c.Args[0], err)
	}
	if err := drain(ctx, group, c.Waiting); err != nil {
		return 0, err
	}
	state := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if state.Signaled() {
		return 128 + int(state.Signal()), nil
	}
	return state.ExitStatus(), nil
}

// drain waits until no process is left in the cgroup. Once ctx has ended, those that stay are
// killed after some seconds.
func drain(ctx context.Context, group cgroup.Cgroup, waiting func(int)) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	var ended time.Time
	for told := false; ; told = true {
		pids, err := group.Processes()
		if err != nil || len(pids) == 0 {
			return err
		}
		if !told && waiting != nil {
			waiting(len(pids))
		}
		if ctx.Err() != nil {
			if ended.IsZero() {
				ended = time.Now()
				signalAll(group, syscall.SIGTERM)
			} else if time.Since(ended) > 3*time.Second {
				signalAll(group, syscall.SIGKILL)
			}
		}
		<-ticker.C
	}
}

// signalAll signals every process in the cgroup, which holds only the command and what it started.
func signalAll(group cgroup.Cgroup, signal syscall.Signal) {
	pids, err := group.Processes()
	if err != nil {
		return
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, signal)
	}
}

func account(plane *limit.DataPlane, c Command, out Outcome) (Outcome, error) {
	out.Counted = map[limit.Direction]limit.Counters{}
	for direction := range c.Limits {
		counted, err := plane.Counters(0, direction)
		if err != nil {
			return out, err
		}
		out.Counted[direction] = counted
	}
	return out, nil
}

// removeStale removes the cgroups of earlier calls that were killed, once they are empty.
func removeStale() error {
	root, err := cgroup.Root()
	if err != nil {
		return err
	}
	paths, err := filepath.Glob(filepath.Join(root, prefix+"*"))
	if err != nil {
		return fmt.Errorf("look for stale cgroups: %w", err)
	}
	for _, path := range paths {
		owner := strings.TrimPrefix(filepath.Base(path), prefix)
		if pid, err := strconv.Atoi(owner); err == nil && syscall.Kill(pid, 0) == syscall.ESRCH {
			_ = cgroup.Cgroup{Path: path}.Remove() // one that still holds processes stays until they have ended
		}
	}
	return nil
}

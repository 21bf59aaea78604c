// SPDX-License-Identifier: Apache-2.0

package scoped

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"weir/internal/fault"
	"weir/kernel/cgroup"
)

// runner runs the command in a cgroup, and returns its exit status once the cgroup is empty.
type runner func(ctx context.Context, group cgroup.Cgroup) (status int, err error)

// runner prepares a runner and changes nothing.
func (c Command) runner() (runner, error) {
	if c.PID != 0 {
		return c.processRunner()
	}
	path, err := exec.LookPath(c.Args[0])
	if err != nil {
		return nil, fault.New(fault.Usage, "check its name, or give its full path", "find command: %w", err)
	}
	cmd := exec.Command(path, c.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if c.User != nil {
		if cmd.SysProcAttr.Credential, err = credential(c.User); err != nil {
			return nil, err
		}
		cmd.Env = environment(os.Environ(), c.User)
	}
	return func(ctx context.Context, group cgroup.Cgroup) (int, error) { return c.execute(ctx, cmd, group) }, nil
}

// credential returns the credential of a user with all groups.
func credential(u *user.User) (*syscall.Credential, error) {
	groups, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("find groups of %s: %w", u.Username, err)
	}
	numbers := make([]uint32, 0, len(groups)+2)
	for _, text := range append([]string{u.Uid, u.Gid}, groups...) {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("find groups of %s: %w", u.Username, err)
		}
		numbers = append(numbers, uint32(n))
	}
	return &syscall.Credential{Uid: numbers[0], Gid: numbers[1], Groups: numbers[2:]}, nil
}

// environment returns the environment of another user's command: of root's variables only terminal,
// language, time zone and PATH, since others may be confidential.
func environment(own []string, u *user.User) (all []string) {
	for _, variable := range own {
		switch name, _, _ := strings.Cut(variable, "="); name {
		case "PATH", "TERM", "COLORTERM", "NO_COLOR", "TZ", "LANG", "LANGUAGE":
			all = append(all, variable)
		default:
			if strings.HasPrefix(name, "LC_") {
				all = append(all, variable)
			}
		}
	}
	return append(all, "HOME="+u.HomeDir, "USER="+u.Username, "LOGNAME="+u.Username)
}

// execute starts the command in the cgroup and waits until no process or connection remains.
func (c Command) execute(ctx context.Context, cmd *exec.Cmd, group cgroup.Cgroup) (int, error) {
	directory, err := os.Open(group.Path)
	if err != nil {
		return 0, fmt.Errorf("open cgroup: %w", err)
	}
	defer func() { _ = directory.Close() }()
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(directory.Fd())
	return c.await(ctx, cmd, group, cmd.Start)
}

// await calls begin to start the command and waits until no process or connection remains.
func (c Command) await(ctx context.Context, cmd *exec.Cmd, group cgroup.Cgroup, begin func() error) (int, error) {
	early := ctx.Err() != nil // stopped before the command exists
	if err := begin(); err != nil {
		return 0, fmt.Errorf("start %s: %w", c.Args[0], err)
	}
	var signals *forwarder
	if c.Signals != nil {
		signals, ctx = forward(ctx, c.Signals, group)
		defer signals.stop()
		if early {
			signals.stop()
		}
	}
	stop := context.AfterFunc(ctx, func() { signalAll(group, syscall.SIGTERM) })
	defer stop()
	defer c.watch(group, cmd.Process.Pid, nil)()
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, fmt.Errorf("wait for %s: %w", c.Args[0], err)
	}
	if signals != nil {
		signals.end(cmd)
	}
	if err := c.awaitCompletion(ctx, group); err != nil {
		return 0, err
	}
	state := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if state.Signaled() {
		return 128 + int(state.Signal()), nil
	}
	return state.ExitStatus(), nil
}

// SPDX-License-Identifier: Apache-2.0

package scoped

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/kernel/cgroup"
)

// forwarder passes the signals of the caller to a running command. A signal that the terminal has
// sent to the whole foreground process group has reached the command already.
type forwarder struct {
	group    cgroup.Cgroup
	terminal bool // the caller was in the terminal's foreground process group at the last check
	stop     context.CancelFunc

	mu      sync.Mutex
	running bool
	last    time.Time // of the last signal
}

// forward passes signals to the processes of the cgroup until end is called. The returned context
// ends with SIGTERM, and with any signal after end: the remaining processes are then terminated.
func forward(ctx context.Context, signals <-chan os.Signal, group cgroup.Cgroup) (*forwarder, context.Context) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	f := &forwarder{group: group, terminal: inForeground(), stop: stop, running: true}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case s := <-signals:
				f.pass(s.(syscall.Signal))
			}
		}
	}()
	return f, ctx
}

// pass forwards one signal.
func (f *forwarder) pass(s syscall.Signal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.running || s == syscall.SIGTERM {
		f.stop()
		return
	}
	f.last = time.Now()
	if !f.sentByTerminal(s) {
		signalAll(f.group, s)
	}
}

// sentByTerminal reports whether the terminal has sent a signal to the command as well. The check
// is by process group: a SIGINT that another process sends to a caller in the foreground counts as
// the terminal's.
func (f *forwarder) sentByTerminal(s syscall.Signal) bool {
	before := f.terminal
	f.terminal = inForeground()
	switch s {
	case syscall.SIGINT, syscall.SIGQUIT:
		return f.terminal
	case syscall.SIGHUP: // a terminal that hangs up is gone
		return before && !f.terminal
	}
	return false
}

// end stops the forwarding after the end of the command. A command that a signal has ended takes
// its remaining processes with it.
func (f *forwarder) end(cmd *exec.Cmd) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running = false
	state, is := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if is && state.Signaled() || time.Since(f.last) < graceTime {
		f.stop()
	}
}

// inForeground reports whether this process is in the foreground process group of its terminal.
func inForeground() bool {
	terminal, err := unix.Open("/dev/tty", unix.O_RDONLY|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(terminal) }()
	group, err := unix.IoctlGetInt(terminal, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// SPDX-License-Identifier: Apache-2.0

// Package child runs parts of Weir in separate processes that never outlive their parent.
//
// A part registers itself under a name; [Start] runs this executable with that name, and [Main],
// called first in main and in TestMain, runs the part. The kernel kills a child when its parent
// dies (PR_SET_PDEATHSIG), so that kill -9 of a run leaves no process behind.
package child

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

const variable = "WEIR_CHILD"

// Part is the work of a child: it reads its task from in, answers on out, and returns when in ends
// or the work is done.
type Part func(in io.Reader, out io.Writer) error

// Parts maps a part's name to its work.
type Parts map[string]Part

// Main runs the part this process was started for and exits; in any other process it returns at
// once.
func Main(parts Parts) {
	name := os.Getenv(variable)
	if name == "" {
		return
	}
	// Grandchildren do not inherit the part.
	_ = os.Unsetenv(variable)
	part, known := parts[name]
	if !known {
		fmt.Fprintf(os.Stderr, "child %q is not a part of this executable\n", name)
		os.Exit(2)
	}
	if err := part(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Environment returns the variables that make this executable run the named part.
func Environment(name string) []string { return []string{variable + "=" + name} }

// Process is a running child. In and Out are its standard input and output; its standard error goes
// to Stderr's writer.
type Process struct {
	In  io.WriteCloser
	Out io.ReadCloser
	cmd *exec.Cmd
	// done is closed after the child was waited for; err is set before that.
	done chan struct{}
	err  error
}

// Start runs this executable as the named part. The child is killed when ctx ends or when this
// process dies.
func Start(ctx context.Context, name string, stderr io.Writer) (*Process, error) {
	return StartIn(ctx, name, stderr, nil)
}

// StartIn is Start with control over namespaces and attributes of the child. It calls enter, if not
// nil, on the thread that starts the child. That thread is not reused, so a namespace that enter
// enters becomes the child's. enter may also set attributes such as the cgroup.
func StartIn(ctx context.Context, name string, stderr io.Writer, enter func(*syscall.SysProcAttr) error) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own executable: %w", err)
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), Environment(name)...)
	cmd.Stderr = stderr
	// A separate session keeps the terminal's Ctrl-C from the child and gives it a CPU share of its
	// own where the scheduler groups tasks by session (autogroup).
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start child %s: %w", name, err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start child %s: %w", name, err)
	}
	p := &Process{In: in, Out: out, cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go p.hold(started, enter)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start child %s: %w", name, err)
	}
	return p, nil
}

// hold starts the child and waits for it on one thread: the death signal follows the thread, not
// the process.
func (p *Process) hold(started chan<- error, enter func(*syscall.SysProcAttr) error) {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	var err error
	if enter != nil {
		err = enter(p.cmd.SysProcAttr)
	}
	if err == nil {
		err = p.cmd.Start()
	}
	started <- err
	if err != nil {
		return
	}
	state, err := p.cmd.Process.Wait()
	if err == nil && !state.Success() {
		err = fmt.Errorf("child ended with %s", state)
	}
	p.err = err
	close(p.done)
}

// PID is the child's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the child has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the child to end and returns how it ended.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Kill ends the child at once, as kill -9 does.
func (p *Process) Kill() error { return p.cmd.Process.Kill() }

// Stop closes the child's input, which ends it, and kills it after the grace time.
func (p *Process) Stop(grace time.Duration) error {
	_ = p.In.Close()
	select {
	case <-p.done:
		return p.err
	case <-time.After(grace):
		_ = p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("child %d did not end within %s and was killed", p.PID(), grace)
	}
}

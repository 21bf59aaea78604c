// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/units"
	"weir/kernel/netns"
	"weir/lab/traffic"
)

const (
	// outputKept is the maximum size of a program's kept output, from its end.
	outputKept = 64 << 10
	// graceTime is the time between SIGTERM and SIGKILL.
	graceTime = time.Second
)

// program is a running shell line.
type program struct {
	began   time.Time
	output  tail
	started chan struct{} // closed when it runs, or could not
	done    chan struct{} // closed when it has ended; the fields below are set before
	pid     int           // set before started is closed
	err     error
	took    time.Duration

	stopping sync.Once
	stopped  bool // it was ended before its own end
}

// start runs a line at an endpoint, in its cgroup if it has one, with the lab's host names. It is
// killed when this process dies: the death signal follows the thread that started it.
func (r *ready) start(at traffic.Endpoint, line string) *program {
	p := &program{began: time.Now(), started: make(chan struct{}), done: make(chan struct{})}
	cmd := exec.Command(shell, "-c", line)
	cmd.Dir, cmd.Env = r.folder, r.environment
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	cmd.WaitDelay = graceTime // of a pipe that a program's child keeps open
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread has other mounts and ends with the goroutine
		defer close(p.done)
		if p.err = p.begin(cmd, at); p.err == nil {
			p.err = cmd.Wait()
		}
		p.took = time.Since(p.began)
	}()
	<-p.started
	return p
}

func (p *program) begin(cmd *exec.Cmd, at traffic.Endpoint) error {
	defer close(p.started)
	if err := at.Namespace.Enter(); err != nil {
		return err
	}
	if at.Hosts != "" {
		if err := netns.ReplaceHosts(at.Hosts); err != nil {
			return err
		}
	}
	if at.Group != nil {
		directory, err := os.Open(at.Group.Directory())
		if err != nil {
			return fmt.Errorf("open cgroup: %w", err)
		}
		defer func() { _ = directory.Close() }()
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(directory.Fd())
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.pid = cmd.Process.Pid
	return nil
}

// stop ends the program and its children. It returns the error of a program that had failed by
// itself.
func (p *program) stop() error {
	p.stopping.Do(func() {
		select {
		case <-p.done:
		default:
			p.stopped = true
		}
		if p.pid == 0 {
			return
		}
		_ = unix.Kill(-p.pid, unix.SIGTERM)
		timer := time.NewTimer(graceTime)
		defer timer.Stop()
		select {
		case <-p.done:
		case <-timer.C:
		}
		_ = unix.Kill(-p.pid, unix.SIGKILL) // children that outlived it
	})
	<-p.done
	return p.failure()
}

// failure is the error of a program that failed by itself.
func (p *program) failure() error {
	var exit *exec.ExitError
	switch {
	case p.stopped || p.err == nil || errors.Is(p.err, exec.ErrWaitDelay):
		return nil
	case errors.As(p.err, &exit):
		return fmt.Errorf("ended with %s: %s", exit, p.output.lastLine())
	}
	return fmt.Errorf("could not be run: %w", p.err)
}

// report describes the program's end.
func (p *program) report(role, host, line string) traffic.ProgramRun {
	r := traffic.ProgramRun{Role: role, Host: host, Line: line, Took: p.took, Stopped: p.stopped, Status: -1, Output: p.output.String()}
	var exit *exec.ExitError
	switch {
	case p.err == nil || errors.Is(p.err, exec.ErrWaitDelay):
		r.Status = 0
	case errors.As(p.err, &exit):
		r.Status = exit.ExitCode()
	}
	return r
}

// awaitPort waits for a listener on the port, TCP or UDP; port 0 returns at once.
func (p *program) awaitPort(ctx context.Context, at traffic.Endpoint, port int) error {
	if port == 0 {
		return nil
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(listenWait)
	defer limit.Stop()
	for !listening(at.Namespace, port) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-p.done:
			if err := p.failure(); err != nil {
				return fmt.Errorf("its server %w", err)
			}
			return fmt.Errorf("its server ended before it listened on port %d: keep it in the foreground", port)
		case <-limit.C:
			return fmt.Errorf("its server did not listen on port %d within %s: %s", port, listenWait, p.output.lastLine())
		}
	}
	return nil
}

// listening searches the kernel's lists (proc_net_tcp) for a listening TCP or a bound UDP socket:
// local address:port in hexadecimal, state 0A of TCP.
func listening(ns *netns.Namespace, port int) bool {
	suffix, found := fmt.Sprintf(":%04X", port), false
	_ = ns.Do(func() error {
		for _, file := range []string{"tcp", "tcp6", "udp", "udp6"} {
			text, err := os.ReadFile("/proc/thread-self/net/" + file)
			if err != nil {
				continue
			}
			for line := range strings.Lines(string(text)) {
				fields := strings.Fields(line)
				found = found || len(fields) > 3 && strings.HasSuffix(fields[1], suffix) && (fields[3] == "0A" || strings.HasPrefix(file, "udp"))
			}
		}
		return nil
	})
	return found
}

// tail keeps the end of the data written to it. It is safe for concurrent use.
type tail struct {
	mu   sync.Mutex
	kept bytes.Buffer // guarded by mu
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept.Write(p)
	if more := t.kept.Len() - outputKept; more > 0 {
		t.kept.Next(more)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(t.kept.String(), "\uFFFD")
}

// lastLine is the last line with text.
func (t *tail) lastLine() string {
	lines := strings.FieldsFunc(strings.TrimSpace(t.String()), func(r rune) bool { return r == '\n' || r == '\r' })
	if len(lines) == 0 {
		return "it printed nothing"
	}
	return lines[len(lines)-1]
}

// rate is the last rate in a line of its own: "rate 5Mbit", or in bit/s, "rate 5e6".
func (t *tail) rate() (last units.BitRate) {
	for line := range strings.Lines(t.String()) {
		text, found := strings.CutPrefix(strings.TrimSpace(line), "rate ")
		if !found {
			continue
		}
		if n, err := strconv.ParseFloat(text, 64); err == nil && n >= 0 && n <= math.MaxInt64 {
			last = units.BitRate(n)
		} else if rate, err := units.ParseBitRate(text); err == nil {
			last = rate
		}
	}
	return last
}

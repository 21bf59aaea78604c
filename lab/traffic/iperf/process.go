// SPDX-License-Identifier: Apache-2.0

package iperf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/units"
	"weir/lab/traffic"
)

const (
	// socketBuffer is the requested UDP socket buffer, in bytes: with iperf3's default, receiver
	// drops look like loss.
	socketBuffer = 4 << 20
	interval     = "0.1" // seconds, traffic.RateInterval
	listenWait   = 5 * time.Second
)

func serverArguments(to traffic.Endpoint, port int) []string {
	return []string{"--server", "--one-off", "--json", "--interval", interval,
		"--bind", to.Address.String(), "--port", strconv.Itoa(port)}
}

func clientArguments(f traffic.Flow, from, to traffic.Endpoint, port int) []string {
	args := []string{"--client", to.Address.String(), "--bind", from.Address.String(), "--port", strconv.Itoa(port),
		"--json", "--interval", interval, "--time", strconv.Itoa(int(f.Duration / time.Second)),
		"--parallel", strconv.Itoa(f.Streams), "--tos", strconv.Itoa(int(f.DSCP) << 2),
		"--connect-timeout", strconv.FormatInt(f.Duration.Milliseconds(), 10)}
	if f.Congestion != "" {
		args = append(args, "--congestion", f.Congestion)
	}
	if f.Rate > 0 {
		args = append(args, "--bitrate", strconv.FormatUint(uint64(f.Rate/units.BitRate(f.Streams)), 10))
	}
	if f.Kind == traffic.Datagram {
		args = append(args, "--udp", "--length", strconv.Itoa(f.Payload), "--window", strconv.Itoa(allowedBuffer()))
	}
	return args
}

// allowedBuffer is socketBuffer, or the host's maximum if that is lower: iperf3 fails if it gets
// less than it requests.
func allowedBuffer() int {
	size := socketBuffer
	for _, name := range []string{"rmem_max", "wmem_max"} {
		text, err := os.ReadFile("/proc/sys/net/core/" + name)
		if err != nil {
			continue
		}
		if most, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			size = min(size, most)
		}
	}
	return size
}

// freePort finds an unused TCP port at the endpoint's address.
func freePort(e traffic.Endpoint) (port int, err error) {
	err = e.Namespace.Do(func() error {
		family, sa := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Addr: e.Address.As16()})
		if e.Address.Is4() {
			family, sa = unix.AF_INET, &unix.SockaddrInet4{Addr: e.Address.As4()}
		}
		fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(fd) }()
		if err := unix.Bind(fd, sa); err != nil {
			return err
		}
		bound, err := unix.Getsockname(fd)
		switch bound := bound.(type) {
		case *unix.SockaddrInet4:
			port = bound.Port
		case *unix.SockaddrInet6:
			port = bound.Port
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("find a free port of %s: %w", e.Address, err)
	}
	return port, nil
}

// process is a running iperf3.
type process struct {
	name           string
	stdout, stderr bytes.Buffer  // may be read after done is closed
	done           chan struct{} // closed when it has ended
	err            error         // its exit; set before done is closed
	cancel         context.CancelFunc
	report         *report
}

// start runs iperf3 at an endpoint, in its cgroup if it has one. It is interrupted when ctx ends,
// and killed when this process dies: the death signal follows the thread that started it, which
// stays in ns until then.
func start(ctx context.Context, at traffic.Endpoint, args ...string) *process {
	ctx, cancel := context.WithCancel(ctx)
	p := &process{name: strings.TrimPrefix(args[0], "--"), done: make(chan struct{}), cancel: cancel}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = &p.stdout, &p.stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 2 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	go func() {
		defer close(p.done)
		p.err = at.Namespace.Do(func() error { return runInside(cmd, at.Group) })
	}()
	return p
}

// runInside runs the command in the cgroup from its first instruction on.
func runInside(cmd *exec.Cmd, group traffic.Group) error {
	if group == nil {
		return cmd.Run()
	}
	directory, err := os.Open(group.Directory())
	if err != nil {
		return fmt.Errorf("open cgroup: %w", err)
	}
	defer func() { _ = directory.Close() }()
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(directory.Fd())
	return cmd.Run()
}

// wait waits for the end. An error exit of iperf3 is no error here, because its report has the
// details.
func (p *process) wait() error {
	<-p.done
	var exit *exec.ExitError
	if p.err == nil || errors.As(p.err, &exit) && p.stdout.Len() > 0 {
		return nil
	}
	return fmt.Errorf("run iperf3 %s: %w: %s", p.name, p.err, strings.TrimSpace(p.stderr.String()))
}

// expire interrupts the process unless it ends within the grace time.
func (p *process) expire(grace time.Duration) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.cancel()
	}
}

// stop ends the process and waits until it has.
func (p *process) stop() {
	p.cancel()
	<-p.done
}

// awaitListening waits until the server listens. If it ends instead, it returns the server's error.
func (p *process) awaitListening(to traffic.Endpoint, port int) error {
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	limit := time.NewTimer(listenWait)
	defer limit.Stop()
	for !listening(to, port) {
		select {
		case <-ticker.C:
		case <-p.done:
			said := p.stdout.String() + p.stderr.String()
			if strings.Contains(said, "Address already in use") {
				return fmt.Errorf("start iperf3 server on port %d: %w", port, errTaken)
			}
			return fmt.Errorf("start iperf3 server: %w: %s", p.err, strings.TrimSpace(said))
		case <-limit.C:
			return fmt.Errorf("start iperf3 server: it did not listen within %s", listenWait)
		}
	}
	return nil
}

// listening searches the kernel's list (proc_net_tcp) for a listening socket: local address:port in
// hexadecimal, state 0A.
func listening(to traffic.Endpoint, port int) bool {
	file := "/proc/thread-self/net/tcp6"
	if to.Address.Is4() {
		file = "/proc/thread-self/net/tcp"
	}
	found := false
	_ = to.Namespace.Do(func() error {
		text, err := os.ReadFile(file)
		found = err == nil && listed(string(text), port)
		return err
	})
	return found
}

func listed(table string, port int) bool {
	suffix := fmt.Sprintf(":%04X", port)
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) > 3 && strings.HasSuffix(fields[1], suffix) && fields[3] == "0A" {
			return true
		}
	}
	return false
}

// SPDX-License-Identifier: Apache-2.0

package station

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"weir/kernel/congestion"
	"weir/kernel/tcpinfo"
)

const (
	writeSize   = 128 << 10 // bytes of one unpaced write
	samplePause = 20 * time.Millisecond
	// timestamps is the size of TCP's timestamp option with padding in bytes (RFC 7323); the first
	// option flag of TCP_INFO (TCPI_OPT_TIMESTAMPS in linux/tcp.h) reports whether the connection
	// uses it.
	timestamps, hasTimestamps = 12, 1
)

var blank = make([]byte, writeSize)

// streams holds the TCP connections of one end. The kernel discards received data.
type streams struct {
	flow  Flow
	conns []*net.TCPConn
	sent  atomic.Uint64

	mu      sync.Mutex // guards the following fields
	samples int
	total   time.Duration
	came    classes
}

// newStreams takes over the connections and starts to receive.
func newStreams(f Flow, conns []*net.TCPConn) *streams {
	s := &streams{flow: f, conns: conns}
	for _, c := range conns {
		if tos, told := handshakeClass(c); told {
			s.came.came(tos)
		}
		go discard(c)
	}
	return s
}

func (s *streams) dscps() DSCPs { return s.came.read() }

func (s *streams) echoes() []Echo { return nil }

func (s *streams) arrivals() []Arrival { return nil }

func (s *streams) send(stop <-chan struct{}) error {
	errs := make([]error, len(s.conns))
	var all sync.WaitGroup
	over := make(chan struct{})
	go s.sample(over)
	for i, c := range s.conns {
		all.Go(func() { errs[i] = s.sendOne(c, stop) })
	}
	all.Wait()
	close(over)
	return errors.Join(errs...)
}

// sendOne writes until stop is closed, which also interrupts a write that waits for the window.
func (s *streams) sendOne(c *net.TCPConn, stop <-chan struct{}) error {
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-stop:
			_ = c.SetWriteDeadline(time.Unix(1, 0))
		case <-ended:
		}
	}()
	rate, size := float64(s.flow.Rate)/float64(len(s.conns)), writeSize
	if rate > 0 {
		size = int(min(max(rate/8*0.002, 1448), writeSize))
	}
	err := pace(rate, size, stop, func() error {
		n, err := c.Write(blank[:size])
		s.sent.Add(uint64(n))
		return err
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

// sample reads the round-trip times until over is closed.
func (s *streams) sample(over <-chan struct{}) {
	tick := time.NewTicker(samplePause)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case <-tick.C:
		}
		for _, c := range s.conns {
			if info, err := information(c); err == nil && info.Rtt > 0 {
				s.mu.Lock()
				s.samples++
				s.total += info.SRTT()
				s.mu.Unlock()
			}
		}
	}
}

func (s *streams) delay() Delay {
	s.mu.Lock()
	defer s.mu.Unlock()
	var d Delay
	if s.samples == 0 {
		return d
	}
	d.Mean = s.total / time.Duration(s.samples)
	for _, c := range s.conns {
		if info, err := information(c); err == nil && (d.Idle == 0 || info.MinRTT() < d.Idle) {
			d.Idle = info.MinRTT()
		}
	}
	return d
}

// congestion returns the distinct congestion controls of the connections.
func (s *streams) congestion() string {
	var names []string
	for _, c := range s.conns {
		raw, err := c.SyscallConn()
		if err != nil {
			continue
		}
		_ = raw.Control(func(fd uintptr) {
			if name := congestion.Of(int(fd)); name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		})
	}
	return strings.Join(names, ", ")
}

// tally counts wire bytes by the kernel's segment counters: a super-packet counts as its segments.
func (s *streams) tally() (Tally, error) {
	t := Tally{Sent: s.sent.Load()}
	for _, c := range s.conns {
		info, err := information(c)
		if err != nil {
			return t, err
		}
		headers := uint64(20 + 20 + Ethernet)
		if c.RemoteAddr().(*net.TCPAddr).IP.To4() == nil {
			headers += 20
		}
		if info.Options&hasTimestamps != 0 {
			headers += timestamps
		}
		t.Octets += info.Bytes_received
		t.Left += info.Bytes_sent
		t.Again += info.Bytes_retrans
		t.Segments += uint64(info.Data_segs_in)
		t.Wire += info.Bytes_received + uint64(info.Data_segs_in)*headers
	}
	return t, nil
}

// close resets the connections, so that none of them remains.
func (s *streams) close() {
	for _, c := range s.conns {
		_ = c.SetLinger(0)
		_ = c.Close()
	}
}

func information(c *net.TCPConn) (info tcpinfo.Info, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return info, fmt.Errorf("read TCP_INFO: %w", err)
	}
	outer := raw.Control(func(fd uintptr) { info, err = tcpinfo.Read(int(fd)) })
	return info, errors.Join(outer, err)
}

// discard receives without copying (MSG_TRUNC, tcp(7)) until the connection ends.
func discard(c *net.TCPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	var nowhere [1]byte
	for {
		var n uintptr
		var failed syscall.Errno
		err := raw.Read(func(fd uintptr) bool {
			n, _, failed = syscall.Syscall6(unix.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&nowhere)), 1<<20, unix.MSG_TRUNC, 0, 0)
			return failed != unix.EAGAIN && failed != unix.EINTR
		})
		if err != nil || failed != 0 || n == 0 {
			return
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package station

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/internal/wait"
)

// Arrival is one datagram of a train: its number, its send time on the sender's clock, and its
// arrival time on the receiver's clock, which differs.
type Arrival struct {
	Number uint32 `json:"n"`
	Sent   int64  `json:"s"` // nanoseconds
	Came   int64  `json:"c"`
}

// maxArrivals is the maximum number of arrivals between two reports.
const maxArrivals = 8192

// trains holds the arrivals at a far station. It is safe for concurrent use.
type trains struct {
	mu   sync.Mutex
	came []Arrival
}

// note records the arrival of a datagram.
func (t *trains) note(b, control []byte) {
	if len(b) != Payload {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.came) < maxArrivals {
		t.came = append(t.came, Arrival{binary.BigEndian.Uint32(b), int64(binary.BigEndian.Uint64(b[4:])), timeIn(control)})
	}
}

func (t *trains) take() []Arrival {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.came
	t.came = nil
	return all
}

// wantTime requests the kernel's receive timestamps (SO_TIMESTAMPNS, socket(7)).
func wantTime(c syscall.Conn) error {
	raw, err := c.SyscallConn()
	if err == nil {
		outer := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) })
		err = errors.Join(outer, err)
	}
	if err != nil {
		return fmt.Errorf("ask for times of arrival: %w", err)
	}
	return nil
}

// timeIn returns the kernel's timestamp in control messages, or the current time.
func timeIn(control []byte) int64 {
	messages, _ := unix.ParseSocketControlMessage(control)
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= 16 {
			return int64(binary.NativeEndian.Uint64(m.Data))*1e9 + int64(binary.NativeEndian.Uint64(m.Data[8:]))
		}
	}
	return time.Now().UnixNano()
}

// Sender is a near station in this process, for flows outside any scope. It is not safe for
// concurrent use; Close ends both stations.
type Sender struct {
	control net.Conn
	far     end
	near    *datagrams
}

// Join connects to the peer with a flow of datagrams with a DSCP.
func Join(ctx context.Context, p Peer, f Flow, dscp uint8) (*Sender, error) {
	dialer := net.Dialer{Timeout: connectTime}
	control, err := dialer.DialContext(ctx, "tcp", p.Control.String())
	if err != nil {
		return nil, fault.Wrap(fmt.Errorf("reach the peer: %w", err), fault.Testbed, "start it there, and let its TCP and UDP port through firewalls")
	}
	s := &Sender{control: control, far: converse(control, control)}
	if err := s.join(ctx, p, f, dscp); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Sender) join(ctx context.Context, p Peer, f Flow, dscp uint8) error {
	if err := s.far.to.Encode(hello{Format: format, Kind: kindControl, Token: p.Token, Flow: f}); err != nil {
		return fmt.Errorf("ask the peer: %w", err)
	}
	opened, err := s.far.next(ctx, "session")
	if err != nil {
		return fault.Wrap(fmt.Errorf("ask the peer: %w", err), fault.Testbed, "give both ends the same --token-file, and the same version of Weir")
	}
	near, err := nearUDP(Task{Flow: f, Target: p.Target, Session: opened.Session, DSCP: dscp})
	if err != nil {
		return err
	}
	s.near = near.(*datagrams)
	if _, err := s.far.next(ctx, "ready"); err != nil {
		return fmt.Errorf("connect stations: %w", err)
	}
	return nil
}

// Close ends both stations.
func (s *Sender) Close() {
	_ = s.control.Close()
	if s.near != nil {
		s.near.close()
	}
}

// reportTime is the maximum time in flight of the last datagrams of a train, in the path's queues.
const reportTime, reportEvery = 500 * time.Millisecond, 2 * time.Millisecond

// Train sends datagrams at a rate of payload and returns the arrivals, in their order. It calls
// stop before each datagram and ends if stop returns true.
func (s *Sender) Train(ctx context.Context, rate float64, datagrams int, stop func() bool) (sent int, came []Arrival, err error) {
	if _, err := s.report(ctx); err != nil { // discards the arrivals of the train before
		return 0, nil, err
	}
	end, b := make(chan struct{}), make([]byte, Payload)
	finish := sync.OnceFunc(func() { close(end) })
	err = pace(rate, Payload, end, func() error {
		if sent == datagrams || stop() || ctx.Err() != nil {
			finish()
			return nil
		}
		binary.BigEndian.PutUint32(b, uint32(sent))
		binary.BigEndian.PutUint64(b[4:], uint64(time.Now().UnixNano()))
		sent++
		if err := s.near.write(b); err != nil && !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.ECONNREFUSED) {
			return fmt.Errorf("send train: %w", err)
		}
		return nil
	})
	for deadline := time.Now().Add(reportTime); err == nil && len(came) < sent && time.Now().Before(deadline); {
		var more []Arrival
		if more, err = s.report(ctx); err == nil {
			came = append(came, more...)
			err = wait.For(ctx, reportEvery)
		}
	}
	return sent, came, err
}

func (s *Sender) report(ctx context.Context) ([]Arrival, error) {
	if err := s.far.to.Encode(command{Do: "report"}); err != nil {
		return nil, fmt.Errorf("ask the peer: %w", err)
	}
	got, err := s.far.next(ctx, "report")
	if err != nil {
		return nil, fmt.Errorf("ask the peer: %w", err)
	}
	return got.Arrivals, nil
}

// Probe sends small datagrams, which return, at a rate of payload until ctx ends. It starts with an
// empty list; Echoes may be called meanwhile.
func (s *Sender) Probe(ctx context.Context, rate float64) error {
	return s.near.probes.send(rate, s.near.write, ctx.Done())
}

// Echoes returns the probes so far.
func (s *Sender) Echoes() []Echo { return s.near.echoes() }

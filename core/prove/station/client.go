// SPDX-License-Identifier: Apache-2.0

package station

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"time"

	"weir/internal/child"
	"weir/internal/fault"
	"weir/internal/wait"
)

// Place is the environment of a near station.
type Place struct {
	// Enter runs before the process starts, on its thread, and chooses the namespace. It may be
	// nil.
	Enter func(*syscall.SysProcAttr) error
	// Join is called with the process before it opens sockets, and chooses the cgroup. The cgroup's
	// owner may stop its processes; a process that is started there can block its parent until its
	// first instruction. It may be nil.
	Join func(pid int) error
	User *uint32 // new user; nil keeps it
	Mark uint32  // of its sockets (SO_MARK); 0 is none
	Late bool    // User and Mark take effect after the sockets are open, instead of before
}

// Peer is a server as its clients see it.
type Peer struct {
	Control netip.AddrPort // for this process
	Target  netip.AddrPort // for near stations
	Token   string
}

// Resolve resolves the address and port of a peer.
func Resolve(ctx context.Context, text, token string) (*Peer, error) {
	const try = "write the address and port of a 'weir prove --listen' or 'weir avail --listen', as in 192.0.2.9:5201 or [2001:db8::9]:5201"
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return nil, fault.New(fault.Usage, try, "%q is no peer: %w", text, err)
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fault.New(fault.Usage, try, "find peer: %w", err)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return nil, fault.New(fault.Usage, try, "%q is no peer: %q is no port", text, port)
	}
	at := netip.AddrPortFrom(found[0].Unmap(), uint16(number))
	return &Peer{Control: at, Target: at, Token: token}, nil
}

// Pair is a connected flow. It is not safe for concurrent use; Close ends both stations.
type Pair struct {
	Flow    Flow
	process *child.Process
	control net.Conn
	near    end
	far     end
}

// end is the control connection to one station.
type end struct {
	to     *json.Encoder
	events chan Event // closed at the end of the connection
}

// Connect starts a near station and connects it to the peer.
func Connect(ctx context.Context, p Peer, at Place, f Flow) (pair *Pair, err error) {
	pair = &Pair{Flow: f}
	defer func() {
		if err != nil {
			pair.Close()
		}
	}()
	dialer := net.Dialer{Timeout: connectTime}
	if pair.control, err = dialer.DialContext(ctx, "tcp", p.Control.String()); err != nil {
		return pair, fault.Wrap(fmt.Errorf("reach the peer: %w", err), fault.Testbed,
			"start it with: weir prove --listen ADDRESS:PORT, and let its TCP and UDP port through firewalls")
	}
	pair.far = converse(pair.control, pair.control)
	if err := pair.far.to.Encode(hello{Format: format, Kind: kindControl, Token: p.Token, Flow: f}); err != nil {
		return pair, fmt.Errorf("ask the peer: %w", err)
	}
	opened, err := pair.far.next(ctx, "session")
	if err != nil {
		return pair, fault.Wrap(fmt.Errorf("ask the peer: %w", err), fault.Testbed, "give both ends the same --token-file")
	}
	if pair.process, err = child.StartIn(ctx, NearPart, os.Stderr, at.Enter); err != nil {
		return pair, err
	}
	if at.Join != nil {
		if err := at.Join(pair.process.PID()); err != nil {
			return pair, err
		}
	}
	pair.near = converse(pair.process.Out, pair.process.In)
	if err := pair.near.to.Encode(Task{Flow: f, Target: p.Target, Session: opened.Session, User: at.User, Mark: at.Mark, Late: at.Late}); err != nil {
		return pair, fmt.Errorf("instruct near station: %w", err)
	}
	for _, e := range []end{pair.near, pair.far} {
		if _, err := e.next(ctx, "ready"); err != nil {
			return pair, fmt.Errorf("connect stations: %w", err)
		}
	}
	return pair, nil
}

// PID returns the process id of the near station.
func (p *Pair) PID() int { return p.process.PID() }

func converse(in io.Reader, out io.Writer) end {
	e := end{to: json.NewEncoder(out), events: make(chan Event, 8)}
	go func() {
		defer close(e.events)
		for decoder := json.NewDecoder(in); ; {
			var event Event
			if decoder.Decode(&event) != nil {
				return
			}
			e.events <- event
		}
	}()
	return e
}

// next waits for an event of this name until ctx ends.
func (e end) next(ctx context.Context, name string) (Event, error) {
	select {
	case got, open := <-e.events:
		switch {
		case !open:
			return got, errors.New("the station has ended")
		case got.Problem != "":
			return got, errors.New(got.Problem)
		case got.Event != name:
			return got, fmt.Errorf("the station says %q instead of %q", got.Event, name)
		}
		return got, nil
	case <-ctx.Done():
		return Event{}, ctx.Err()
	}
}

// Measured holds the counters of the receiver during the measurement, and those of the sender's
// kernel.
type Measured struct {
	Received Tally // during the measurement
	All      Tally // from the beginning to the end
	Delay    Delay
	// Congestion is the congestion control of the sending sockets at their end; "" for UDP.
	Congestion string
	// DSCPs counts packets received at the far station by class; nil if the near one receives.
	DSCPs DSCPs
	// Left and Again are the payload sent by the sender's kernel during the measurement, and the
	// retransmitted part of it, for TCP; for QUIC Left is all sent payload.
	Left, Again uint64
	// Transfers holds the short transfers.
	Transfers []Echo
}

// settle is the wait for packets in flight after the sender has stopped.
const settle = 50 * time.Millisecond

// Measure starts the sender and measures at the receiver for duration after the warm-up. It calls
// edge at the start and the end of the measurement.
func (p *Pair) Measure(ctx context.Context, warmup, duration time.Duration, edge func() error) (m Measured, err error) {
	sender, receiver := p.ends()
	window := command{Do: "measure", Warmup: warmup, Duration: duration}
	if err := errors.Join(sender.to.Encode(command{Do: "send"}), receiver.to.Encode(window), sender.to.Encode(window)); err != nil {
		return m, fmt.Errorf("instruct stations: %w", err)
	}
	var at, from [2]Tally
	for i, name := range []string{"begin", "end"} {
		event, err := receiver.next(ctx, name)
		if err != nil {
			return m, fmt.Errorf("measure: %w", err)
		}
		if err := edge(); err != nil {
			return m, err
		}
		at[i] = event.Tally
		if event, err = sender.next(ctx, name); err != nil {
			return m, fmt.Errorf("measure: %w", err)
		}
		from[i] = event.Tally
	}
	m.Received = at[1].Since(at[0])
	left := from[1].Since(from[0])
	m.Left, m.Again = left.Left, left.Again
	sent, received, err := p.stop(ctx)
	m.All, m.Delay, m.Congestion, m.DSCPs = received.Tally, sent.Delay, sent.Congestion, received.DSCPs
	m.Transfers = sent.Echoes
	if p.Flow.Protocol == QUIC {
		m.Left = sent.Tally.Sent
	}
	return m, err
}

// stop ends the sender, then the receiver, and returns their last reports.
func (p *Pair) stop(ctx context.Context) (sent, received Event, err error) {
	sender, receiver := p.ends()
	var last [2]Event
	for i, one := range []end{sender, receiver} {
		err := one.to.Encode(command{Do: "stop"})
		if err == nil {
			last[i], err = one.next(ctx, "stopped")
		}
		if err == nil && i == 0 {
			err = wait.For(ctx, settle)
		}
		if err != nil {
			return sent, received, fmt.Errorf("stop stations: %w", err)
		}
	}
	return last[0], last[1], nil
}

// Start starts the sender until Probed.
func (p *Pair) Start() error {
	sender, _ := p.ends()
	if err := sender.to.Encode(command{Do: "send"}); err != nil {
		return fmt.Errorf("instruct stations: %w", err)
	}
	return nil
}

// Probed ends a flow of probes and returns them.
func (p *Pair) Probed(ctx context.Context) ([]Echo, error) {
	sent, _, err := p.stop(ctx)
	return sent.Echoes, err
}

// Transfer sends for a duration and returns all received traffic. It ends the flow.
func (p *Pair) Transfer(ctx context.Context, duration time.Duration) (Tally, error) {
	sender, _ := p.ends()
	if err := sender.to.Encode(command{Do: "send"}); err != nil {
		return Tally{}, fmt.Errorf("instruct stations: %w", err)
	}
	if err := wait.For(ctx, duration); err != nil {
		return Tally{}, err
	}
	_, received, err := p.stop(ctx)
	return received.Tally, err
}

func (p *Pair) ends() (sender, receiver end) {
	if p.Flow.Reverse && p.Flow.Protocol != Short {
		return p.far, p.near
	}
	return p.near, p.far
}

// Close ends both stations.
func (p *Pair) Close() {
	if p.control != nil {
		_ = p.control.Close()
	}
	if p.process != nil {
		_ = p.process.Stop(time.Second) // killed if it does not end
	}
}

// SPDX-License-Identifier: Apache-2.0

package hops

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/dscp"
	"weir/internal/fault"
)

// Options holds the parameters of a trace.
type Options struct {
	To       netip.Addr
	Protocol string // udp or tcp
	Port     uint16 // 0 is 33434 for UDP and 80 for TCP
	DSCP     dscp.DSCP
	Hops     int           // 0 is 30
	Attempts int           // at each unanswered hop; 0 is 3
	Wait     time.Duration // for the answers to an attempt; 0 is 1 s
}

// Limits of options.
const (
	MaxHops     = 64
	MaxAttempts = 20
)

// atOnce is the number of concurrent probes: with more, the destination limits its errors.
const atOnce = 5

func (o *Options) complete() {
	o.To = o.To.Unmap()
	if o.Hops == 0 {
		o.Hops = 30
	}
	if o.Attempts == 0 {
		o.Attempts = 3
	}
	if o.Wait == 0 {
		o.Wait = time.Second
	}
	if o.Port == 0 {
		o.Port = map[string]uint16{"udp": 33434, "tcp": 80}[o.Protocol]
	}
}

// Run traces one path from this thread's network namespace. It requires CAP_NET_RAW.
func Run(ctx context.Context, o Options) (Path, error) {
	o.complete()
	p := Path{To: o.To, Protocol: o.Protocol, Port: o.Port, Sent: o.DSCP}
	t := &tracer{Options: o, hops: map[int]Hop{}, end: o.Hops}
	var err error
	if t.own, err = net.InterfaceAddrs(); err != nil {
		return p, fmt.Errorf("read this host's addresses: %w", err)
	}
	if t.errors, err = t.rawSocket(); err != nil {
		return p, err
	}
	defer func() { _ = unix.Close(t.errors) }()
	for first := 1; first <= t.end; first += atOnce {
		for range o.Attempts {
			if err := t.attempt(ctx, first); err != nil {
				return p, err
			}
		}
	}
	for n := 1; n <= t.end; n++ {
		h, answered := t.hops[n]
		if !answered {
			h = Hop{Hop: n, Answer: Silent}
		}
		p.Hops = append(p.Hops, h)
	}
	p.trim()
	return p, nil
}

// trim removes the silent hops behind the last answer, except one.
func (p *Path) trim() {
	n := len(p.Hops)
	for n > 1 && p.Hops[n-1].Answer == Silent && p.Hops[n-2].Answer == Silent {
		n--
	}
	p.Hops = p.Hops[:n]
}

// tracer is a running trace.
type tracer struct {
	Options
	errors int         // raw socket for ICMP errors
	hops   map[int]Hop // hops with an answer
	end    int         // the last hop
	own    []net.Addr  // of this host
	alone  bool        // probe hops one by one: the destination answers datagrams
}

// rawSocket opens the socket for ICMP errors.
func (t *tracer) rawSocket() (int, error) {
	family, protocol := unix.AF_INET, unix.IPPROTO_ICMP
	if t.To.Is6() {
		family, protocol = unix.AF_INET6, unix.IPPROTO_ICMPV6
	}
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, protocol)
	if errors.Is(err, unix.EPERM) {
		return 0, fault.New(fault.Permission, "run it as root, or with CAP_NET_RAW", "read ICMP errors: %w", err)
	}
	if err != nil {
		return 0, fmt.Errorf("read ICMP errors: %w", err)
	}
	return fd, nil
}

// missing returns the next unanswered hops from first on.
func (t *tracer) missing(first int) (all []int) {
	for n := first; n < first+atOnce && n <= t.end; n++ {
		if _, answered := t.hops[n]; !answered {
			all = append(all, n)
		}
	}
	return all
}

// attempt probes each unanswered hop once.
func (t *tracer) attempt(ctx context.Context, first int) error {
	if !t.alone {
		err := t.ask(ctx, t.missing(first))
		if err != nil || !t.alone {
			return err
		}
	}
	for n := first; n < first+atOnce && n <= t.end; n++ {
		if _, answered := t.hops[n]; !answered {
			if err := t.ask(ctx, []int{n}); err != nil {
				return err
			}
		}
	}
	return nil
}

// ask probes some hops and waits for the answers.
func (t *tracer) ask(ctx context.Context, hops []int) error {
	var probes prober
	defer func() { probes.close() }()
	for _, n := range hops {
		if err := probes.send(t, n); err != nil {
			return err
		}
	}
	waits := func(n int) bool {
		_, answered := t.hops[n]
		return !answered && n <= t.end
	}
	for until := time.Now().Add(t.Wait); slices.ContainsFunc(hops, waits); {
		if err := ctx.Err(); err != nil {
			return err
		}
		left := time.Until(until)
		if left <= 0 {
			return nil
		}
		if err := t.wait(&probes, hops, min(left, 100*time.Millisecond)); err != nil {
			return err
		}
	}
	return nil
}

// learn stores the answer of a hop; an ICMP error contains more than other answers.
func (t *tracer) learn(h Hop) {
	if before, answered := t.hops[h.Hop]; answered && (before.Known || !h.Known) {
		return
	}
	t.hops[h.Hop] = h
	if h.Answer.last() {
		t.end = min(t.end, h.Hop)
	}
}

// wait reads answers for a limited time.
func (t *tracer) wait(probes *prober, hops []int, limit time.Duration) error {
	polled := append([]unix.PollFd{{Fd: int32(t.errors), Events: unix.POLLIN}}, probes.polled()...)
	n, err := unix.Poll(polled, int(max(limit.Milliseconds(), 1)))
	if err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("wait for answers: %w", err)
	}
	if n <= 0 {
		return nil
	}
	if err := t.quotes(probes); err != nil {
		return err
	}
	for i, p := range polled[1:] {
		if p.Revents != 0 {
			probes.answered(t, i, hops)
		}
	}
	return nil
}

// isOwn reports whether this host answered because it could not send the probe. Such an answer
// concerns no hop, except on a path to this host.
func (t *tracer) isOwn(a netip.Addr) bool {
	return a != t.To && slices.ContainsFunc(t.own, func(own net.Addr) bool {
		n, isNet := own.(*net.IPNet)
		return isNet && n.IP.Equal(a.AsSlice())
	})
}

// quotes reads all received ICMP errors.
func (t *tracer) quotes(probes *prober) error {
	buffer := make([]byte, 2048)
	for {
		n, from, err := unix.Recvfrom(t.errors, buffer, 0)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("read ICMP errors: %w", err)
		}
		parse, address := ParseIPv4, netip.Addr{}
		switch from := from.(type) {
		case *unix.SockaddrInet4:
			address = netip.AddrFrom4(from.Addr)
		case *unix.SockaddrInet6:
			parse, address = ParseIPv6, netip.AddrFrom16(from.Addr)
		}
		q, ok := parse(buffer[:n])
		if !ok || q.To != t.To || q.ToPort != t.Port || t.isOwn(address) {
			continue
		}
		if hop := probes.hop(q); hop > 0 {
			t.learn(Hop{Hop: hop, Address: address, Answer: Answer(q.Kind), DSCP: q.DSCP, Known: true})
		}
	}
}

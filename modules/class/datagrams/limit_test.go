// SPDX-License-Identifier: Apache-2.0

package datagrams

import (
	"net"
	"testing"
	"time"

	"weir/internal/dscp"
	"weir/kernel/testutil"
)

// sender sends datagrams of this process, which are held, to another namespace.
type sender struct {
	*Held
	client net.Conn
}

func newSender(t *testing.T) *sender {
	t.Helper()
	testutil.NeedRoot(t)
	here, there := pair(t)
	var server net.PacketConn
	if err := there.Do(func() (err error) {
		server, err = net.ListenPacket("udp", "[fd00:9::2]:0")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	h, err := load(dscp.LowEffort)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.detach() })
	if err := h.attach(ownGroup(t)); err != nil {
		t.Fatal(err)
	}
	s := &sender{Held: h}
	if err := here.Do(func() (err error) {
		s.client, err = net.Dial("udp", server.LocalAddr().String())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.client.Close() })
	return s
}

// set sets the rate in octets per second.
func (s *sender) set(t *testing.T, rate float64, burst time.Duration) {
	t.Helper()
	if err := s.limit(rate, burst); err != nil {
		t.Fatal(err)
	}
}

// send sends some datagrams, and returns the number that passed. Drops are not reported to sockets.
func (s *sender) send(t *testing.T, number, octets int) int {
	t.Helper()
	before, err := s.queue(egress)
	if err != nil {
		t.Fatal(err)
	}
	for range number {
		if _, err := s.client.Write(make([]byte, octets)); err != nil {
			t.Fatal(err)
		}
	}
	after, err := s.queue(egress)
	if err != nil {
		t.Fatal(err)
	}
	if headers := uint64(48); after.Offered-before.Offered != uint64(number)*(uint64(octets)+headers) {
		t.Fatalf("offered %d octets", after.Offered-before.Offered)
	}
	return number - int(after.Dropped-before.Dropped)
}

const egress = 0

// TestSmallDatagramsPassBesideBulk fills the virtual queue, and then sends datagrams like those of
// DNS.
func TestSmallDatagramsPassBesideBulk(t *testing.T) {
	s := newSender(t)
	s.set(t, 100, 20*time.Second)
	if passed := s.send(t, 5, 1400); passed != 2 {
		t.Errorf("%d large datagrams passed, want 2", passed)
	}
	if passed := s.send(t, 20, 60); passed != 20 {
		t.Errorf("%d of 20 small datagrams passed", passed)
	}
	if passed := s.send(t, 1000, 60); passed > 60 {
		t.Errorf("%d further datagrams passed", passed)
	}
}

// TestARisingRateShortensTheQueue sends a datagram at a low rate, which blocks the queue for a
// time, and one after the rate has risen.
func TestARisingRateShortensTheQueue(t *testing.T) {
	s := newSender(t)
	s.set(t, 1, time.Second)
	if passed := s.send(t, 2, 1400); passed != 1 {
		t.Errorf("%d datagrams passed at an octet per second, want 1", passed)
	}
	s.set(t, 1e9, 5*time.Millisecond)
	if passed := s.send(t, 1, 1400); passed != 1 {
		t.Error("the first datagram at the higher rate was dropped")
	}
	s.set(t, 1, time.Second)
	if passed := s.send(t, 2, 1400); passed != 1 {
		t.Errorf("%d datagrams passed at the low rate again, want 1", passed)
	}
}

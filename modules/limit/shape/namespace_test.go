// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"net/netip"
	"os/exec"
	"testing"
	"time"

	"weir/core/match"
	"weir/internal/direction"
	"weir/kernel/probe"
	"weir/kernel/testutil"
)

// A network namespace has one rate over its veth pairs, later ones included, at their local ends.
// Everything is restored in the end.
func TestANamespaceIsLimitedAtItsEnds(t *testing.T) {
	testutil.Need(t, "fq", probe.Qdisc("fq"))
	for _, d := range direction.Both {
		t.Run(d.String(), func(t *testing.T) {
			s := newStage(t)
			before := s.state()
			scope := s.shaper(d, 10*time.Second)
			scope.Device, scope.Index, scope.Namespace = "", 5, s.there.Path()
			work := Work{Shapers: []Shaper{scope}}
			in := func(want bool) {
				t.Helper()
				s.do(func() error {
					is, err := s.host.InPlace(work)
					if is != want {
						t.Errorf("in place: %t, want %t", is, want)
					}
					return err
				})
			}
			apply := func() {
				t.Helper()
				s.do(func() error { return s.host.Apply(nil, work) })
				in(true)
			}
			s.do(func() error { return s.host.Ready(work) })
			apply()
			s.add("eth1", 1)
			in(false)
			apply()

			const n, wire = 100, 1000
			from, to, end := s.there, s.here, 0
			if d == direction.Ingress {
				from, to, end = s.here, s.there, 1
			}
			var took time.Duration
			for network := range 2 {
				got, each := s.transfer(from, to, s.at(network, end), n, wire)
				if took += each; got != n {
					t.Errorf("%d of %d datagrams arrived over device %d", got, n, network)
				}
			}
			if least := 2*(n-2)*wire*time.Microsecond - scope.classBurst(); took < least {
				t.Errorf("took %v, want %v at least", took, least)
			}
			if c := s.counters(scope); c.Packets < 2*n || c.Dropped+c.Early != 0 || c.Octets < 2*n*wire {
				t.Errorf("counted %+v", c)
			}
			s.remove("eth1")
			in(false)
			apply()
			s.do(func() error { return s.host.Apply(nil, Work{}) })
			if after := s.state(); after != before {
				t.Errorf("left behind:\n%s\nwas:\n%s", after, before)
			}
		})
	}
}

// A namespace without a veth pair is reported.
func TestANamespaceWithoutVethIsReported(t *testing.T) {
	testutil.Need(t, "fq", probe.Qdisc("fq"))
	s := newStage(t)
	led, alone := s.shaper(direction.Egress, time.Second), s.shaper(direction.Egress, time.Second)
	apart := testutil.Namespace(t, "apart")
	led.Device, led.Index, led.Namespace = "", 5, s.there.Path()
	alone.Device, alone.Index, alone.Namespace = "", 6, apart.Path()
	s.do(func() error {
		if got := s.host.Unled(Work{Shapers: []Shaper{led, alone}}); len(got) != 1 || got[0] != apart.Path() {
			t.Errorf("named %q, want %s alone", got, apart.Path())
		}
		return nil
	})
}

// Root in a limited namespace moves its end of the pair into a nested namespace, and the local end
// is renamed. It stays limited, and everything is restored in the end.
func TestANamespaceStaysLimitedWhenItsEndMoves(t *testing.T) {
	testutil.Need(t, "fq", probe.Qdisc("fq"))
	s := newStage(t)
	before := s.state()
	below := testutil.Namespace(t, "below")
	scope := s.shaper(direction.Egress, 10*time.Second)
	scope.Device, scope.Index, scope.Namespace = "", 5, s.there.Path()
	work := Work{Shapers: []Shaper{scope}}
	apply := func() {
		t.Helper()
		s.do(func() error { return s.host.Apply(nil, work) })
		s.do(func() error {
			is, err := s.host.InPlace(work)
			if !is {
				t.Error("not in place")
			}
			return err
		})
	}
	apply()
	s.ip("-n", s.there.Name, "link", "set", "eth0", "netns", below.Name)
	s.ip("-n", below.Name, "address", "add", s.address(1).String()+"/24", "dev", "eth0")
	s.ip("-n", below.Name, "link", "set", "eth0", "up")
	apply()
	s.ip("-n", s.here.Name, "link", "set", "eth0", "down")
	s.ip("-n", s.here.Name, "link", "set", "eth0", "name", "renamed")
	s.ip("-n", s.here.Name, "link", "set", "renamed", "up")
	apply()

	const n, wire = 100, 1000
	got, took := s.transfer(below, s.here, s.address(0), n, wire)
	if got != n {
		t.Errorf("%d of %d datagrams arrived", got, n)
	}
	if least := (n-2)*wire*time.Microsecond - scope.classBurst(); took < least {
		t.Errorf("took %v, want %v at least", took, least)
	}
	if c := s.counters(scope); c.Packets < n {
		t.Errorf("counted %+v", c)
	}
	s.do(func() error { return s.host.Apply(nil, Work{}) })
	s.ip("-n", s.here.Name, "link", "set", "renamed", "down")
	s.ip("-n", s.here.Name, "link", "set", "renamed", "name", "eth0")
	s.ip("-n", s.here.Name, "link", "set", "eth0", "up")
	if after := s.state(); after != before {
		t.Errorf("left behind:\n%s\nwas:\n%s", after, before)
	}
}

// ip changes a device as an administrator does.
func (s *stage) ip(words ...string) {
	s.t.Helper()
	if out, err := exec.Command("ip", words...).CombinedOutput(); err != nil {
		s.t.Fatalf("ip %v: %v: %s", words, err, out)
	}
}

// An end with a limit of its own is rejected.
func TestAnEndIsLimitedOnce(t *testing.T) {
	s := newStage(t)
	scope := s.shaper(direction.Ingress, time.Second)
	scope.Device, scope.Index, scope.Namespace = "", 5, s.there.Path()
	s.do(func() error {
		if _, err := s.host.AtDevices(Work{Shapers: []Shaper{scope, s.shaper(direction.Egress, time.Second)}}); err == nil {
			t.Error("accepted")
		}
		return nil
	})
}

// Received packets are charged to the device or the namespace of the end, never to a scope.
func TestScopesShapeEgressOnly(t *testing.T) {
	b := newBench(t)
	b.assign(match.Assignments{match.OfPrefix(netip.MustParsePrefix("10.9.0.0/16")): 3})
	b.set(3, long(1, 0))
	receives, leads, namespace := long(1, 0), Shaper{Device: "lo", Direction: direction.Ingress, Parent: keyOf(7, direction.Ingress)}, long(1, 0)
	receives.Device, receives.Direction, namespace.Direction = "lo", direction.Ingress, direction.Ingress
	for key, l := range map[uint32]Shaper{loopback: receives, keyOf(7, direction.Ingress): namespace} {
		if err := b.p.set(key, l.config(Fq)); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(when string, key uint32, want uint64) {
		t.Helper()
		if c, err := b.p.counters(key); err != nil || c.Packets != want {
			t.Errorf("%s: %#x was charged for %d packets, want %d (%v)", when, key, c.Packets, want, err)
		}
	}
	b.charge(datagram(one4, to4, 100))
	expect("received", loopback, 1)
	if err := b.p.set(loopback, leads.config(Fq)); err != nil {
		t.Fatal(err)
	}
	b.charge(datagram(one4, to4, 100))
	expect("led", loopback, 1)
	expect("led", keyOf(7, direction.Ingress), 1)
	expect("both", keyOf(3, direction.Egress), 0)
}

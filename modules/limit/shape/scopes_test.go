// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"weir/core/match"
	"weir/internal/direction"
	"weir/kernel/netns"
	"weir/kernel/probe"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
)

// A scope has one rate over all devices, later ones included. Everything is restored in the end.
func TestOneRateOverDevices(t *testing.T) {
	testutil.Need(t, "fq", probe.Qdisc("fq"))
	s := newStage(t)
	before := s.state()
	scope := s.shaper(direction.Egress, 10*time.Second)
	scope.Device, scope.Index = "", 5
	work := Work{Shapers: []Shaper{scope}, Assignments: match.Assignments{match.OfPrefix(netip.MustParsePrefix("10.9.0.0/16")): 5}}
	s.do(func() error { return s.host.Ready(work) })
	s.do(func() error { return s.host.Apply(nil, work) })
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
	in(true)
	s.add("eth1", 1)
	in(false)
	s.do(func() error { return s.host.FollowDevices(nil) })
	in(true)

	const n, wire = 100, 1000
	var took time.Duration
	for i := range 2 {
		got, each := s.transfer(s.here, s.there, s.at(i, 1), n, wire)
		if took += each; got != n {
			t.Errorf("%d of %d datagrams arrived over device %d", got, n, i)
		}
	}
	if minimum := 2*(n-2)*wire*time.Microsecond - scope.classBurst(); took < minimum {
		t.Errorf("took %v, want %v at minimum", took, minimum)
	}
	if c := s.counters(scope); c.Packets < 2*n || c.Dropped+c.Early != 0 || c.Octets < 2*n*wire {
		t.Errorf("counted %+v", c)
	}
	s.remove("eth1")
	s.do(func() error { return s.host.FollowDevices(nil) })
	in(true)
	s.do(func() error { return s.host.Apply(work.Assignments, Work{}) })
	if after := s.state(); after != before {
		t.Errorf("left behind:\n%s\nwas:\n%s", after, before)
	}
}

// A device that disappears before its shaper is installed affects no other device and leaves no
// state.
func TestADeviceThatHasGone(t *testing.T) {
	s := newStage(t)
	before := s.state()
	s.add("eth1", 1)
	shaper, gone := s.shaper(direction.Egress, 10*time.Second), s.shaper(direction.Egress, 10*time.Second)
	gone.Device = "eth1"
	s.do(func() error {
		conn, err := rtnl.Open(nil)
		if err != nil {
			return err
		}
		defer conn.Close()
		d, err := conn.Device(gone.Device)
		gone.Index = d.Index
		return err
	})
	s.apply(gone) // writes its record
	s.remove("eth1")
	s.apply(gone, shaper)
	const n, wire = 20, 1000
	if got, _ := s.transfer(s.here, s.there, s.address(1), n, wire); got != n {
		t.Errorf("%d of %d datagrams arrived", got, n)
	}
	if c := s.counters(shaper); c.Packets < n {
		t.Errorf("counted %+v", c)
	}
	s.do(func() error {
		left, err := s.host.find(gone.Index, gone.Direction)
		if left != nil {
			t.Errorf("on record: %+v", left)
		}
		return err
	})
	s.apply()
	if after := s.state(); after != before {
		t.Errorf("left behind:\n%s\nwas:\n%s", after, before)
	}
}

// A device that disappears between the list of devices and its check is no obstacle to scopes.
func TestADeviceThatHasGoneIsNoObstacle(t *testing.T) {
	s := newStage(t)
	s.add("eth1", 1)
	var listed []rtnl.Device
	s.do(func() (err error) { listed, err = egressDevices(); return err })
	s.remove("eth1")
	s.do(func() error {
		none := func(string) (owned, keeps bool) { return false, false }
		if err := s.host.checkAll(listed, none); len(listed) != 2 || err != nil {
			t.Errorf("%d devices: %v", len(listed), err)
		}
		return nil
	})
}

// Packets redirected to an ifb leave by another device.
func TestEgressDevices(t *testing.T) {
	testutil.Need(t, "ifb", probe.IFB())
	s := newStage(t)
	s.do(func() error {
		conn, err := rtnl.Open(nil)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.AddIFB("ifb7"); err != nil {
			return err
		}
		all, err := egressDevices()
		if len(all) != 1 || all[0].Name != "eth0" {
			t.Errorf("exits %+v", all)
		}
		return err
	})
}

// add makes another pair of devices, in the network with this number.
func (s *stage) add(name string, network int) {
	s.t.Helper()
	for i, ns := range []*netns.Namespace{s.here, s.there} {
		conn, err := rtnl.Open(ns)
		if err != nil {
			s.t.Fatal(err)
		}
		defer conn.Close()
		if i == 0 {
			err = conn.AddVeth(name, s.there, name, 0)
		}
		if err := errors.Join(err, conn.AddAddress(name, netip.PrefixFrom(s.at(network, i), 24)), conn.SetUp(name)); err != nil {
			s.t.Fatal(err)
		}
	}
	s.oneQueue(name)
}

func (s *stage) remove(name string) {
	s.t.Helper()
	s.do(func() error {
		conn, err := rtnl.Open(nil)
		if err != nil {
			return err
		}
		defer conn.Close()
		return conn.Delete(name)
	})
}

// at is the address of one end in a network.
func (s *stage) at(network, i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 9, byte(network), byte(1 + i)})
}

// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"encoding/binary"
	"encoding/json"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/direction"
	"weir/internal/units"
	"weir/kernel/device"
	"weir/kernel/ethtool"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
)

// stage is two namespaces joined by a veth pair. The shapers are in the namespace here.
type stage struct {
	t           *testing.T
	here, there *netns.Namespace
	index       int
	host        Host
}

func newStage(t *testing.T) *stage {
	t.Helper()
	testutil.NeedRoot(t)
	for _, d := range direction.Both {
		_, err := Available(d)
		testutil.Need(t, "delay", err)
	}
	s := &stage{t: t, here: testutil.Namespace(t, "here"), there: testutil.Namespace(t, "there")}
	for i, ns := range []*netns.Namespace{s.here, s.there} {
		conn, err := rtnl.Open(ns)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if i == 0 {
			err = conn.AddVeth("eth0", s.there, "eth0", 0)
		}
		if err == nil {
			err = conn.AddAddress("eth0", netip.PrefixFrom(s.address(i), 24))
		}
		if err == nil {
			err = conn.SetUp("eth0")
		}
		if err != nil {
			t.Fatal(err)
		}
		d, err := conn.Device("eth0")
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			s.index = d.Index
		}
	}
	s.oneQueue("eth0")
	pins := testutil.BPFFS(t)
	s.host = Host{Pins: filepath.Join(pins, "delay"), Devices: filepath.Join(pins, "devices"), Files: filepath.Join(t.TempDir(), "files"),
		CgroupRoot: testutil.Cgroup(t).Path}
	t.Cleanup(func() { s.do(func() error { _, err := s.host.Release(); return err }) })
	return s
}

// oneQueue gives both ends of a pair a single receive queue (GRO), since per-CPU queues reorder
// packets.
func (s *stage) oneQueue(dev string) {
	s.t.Helper()
	for _, ns := range []*netns.Namespace{s.here, s.there} {
		if err := ethtool.SetFeatures(ns, dev, map[string]bool{"tso": false, "gro": true}); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *stage) address(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 9, 0, byte(1 + i)}) }

// do runs a function in the namespace of the shapers.
func (s *stage) do(f func() error) {
	s.t.Helper()
	if err := s.here.Do(f); err != nil {
		s.t.Fatal(err)
	}
}

const slow units.BitRate = 8_000_000 // an perByte takes 1 µs

func (s *stage) shaper(d direction.Direction, horizon time.Duration) Shaper {
	return Shaper{Device: "eth0", Index: s.index, Direction: d, Rate: slow, Cost: 1000 << 24, Burst: 2 * time.Millisecond, Mark: 4 * time.Millisecond,
		Horizon: horizon, SmallOctets: 128}
}

func (s *stage) apply(lines ...Shaper) {
	s.t.Helper()
	s.do(func() error { return s.host.Apply(nil, Work{Shapers: lines}) })
}

func (s *stage) counters(l Shaper) (c Counters) {
	s.t.Helper()
	s.do(func() error {
		got, there, err := s.host.Counters(l)
		if err == nil && !there {
			s.t.Fatal("the shaper is not active")
		}
		c = got
		return err
	})
	return c
}

// state returns the devices and their qdiscs as ip and tc print them.
func (s *stage) state() string {
	s.t.Helper()
	var text []string
	s.do(func() error {
		links, err := rtnl.Open(nil)
		if err != nil {
			return err
		}
		defer links.Close()
		all, err := links.Devices()
		for _, d := range all {
			tree, err := device.Snapshot(nil, d.Name)
			if err != nil {
				return err
			}
			dump, _ := json.Marshal(tree)
			text = append(text, d.Name+" "+string(dump))
		}
		return err
	})
	return strings.Join(text, "\n")
}

// transfer sends n datagrams of wire bytes at once, and returns how many arrived and the time since
// the first was sent.
func (s *stage) transfer(from, to *netns.Namespace, address netip.Addr, n, wire int) (got int, took time.Duration) {
	s.t.Helper()
	var receiver net.PacketConn
	var sender net.Conn
	err := to.Do(func() (err error) {
		receiver, err = net.ListenPacket("udp4", netip.AddrPortFrom(address, 0).String())
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = receiver.Close() }()
	if err := receiver.(*net.UDPConn).SetReadBuffer(4 << 20); err != nil {
		s.t.Fatal(err)
	}
	err = from.Do(func() (err error) {
		sender, err = net.Dial("udp4", receiver.LocalAddr().String())
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = sender.Close() }()
	start := time.Now()
	go func() {
		payload := make([]byte, wire-14-20-8)
		for i := range n {
			binary.BigEndian.PutUint32(payload, uint32(i))
			_, _ = sender.Write(payload)
		}
	}()
	buffer, last := make([]byte, 2000), uint32(0)
	for got < n {
		_ = receiver.SetReadDeadline(time.Now().Add(3 * time.Second))
		if _, _, err := receiver.ReadFrom(buffer); err != nil {
			break
		}
		number := binary.BigEndian.Uint32(buffer)
		if got++; number < last {
			s.t.Errorf("datagram %d came after %d", number, last)
		}
		last, took = number, time.Since(start)
	}
	return got, took
}

// A burst beyond the rate and within the horizon arrives complete, in order, and not too early.
func TestPacketsWaitForTheirTime(t *testing.T) {
	for _, d := range direction.Both {
		t.Run(d.String(), func(t *testing.T) {
			s := newStage(t)
			before := s.state()
			shaper := s.shaper(d, 10*time.Second)
			shaper.Mark = 9 * time.Second // no early drops
			s.apply(shaper)
			from, to, address := s.here, s.there, s.address(1)
			if d == direction.Ingress {
				from, to, address = s.there, s.here, s.address(0)
			}
			const n, wire = 250, 1000
			got, took := s.transfer(from, to, address, n, wire)
			c := s.counters(shaper)
			if got != n || c.Dropped+c.Early != 0 {
				t.Errorf("%d of %d datagrams arrived; %+v", got, n, c)
			}
			// The last one leaves when those before it have had their time, but for the burst.
			if minimum := (n-1)*wire*time.Microsecond - shaper.classBurst(); took < minimum {
				t.Errorf("took %v, want %v at minimum", took, minimum)
			}
			if c.Packets < n || c.Octets < n*wire || c.Delayed == 0 {
				t.Errorf("counted %+v", c)
			}
			s.do(func() error {
				in, err := s.host.InPlace(Work{Shapers: []Shaper{shaper}})
				if !in {
					t.Error("the shaper is not in place")
				}
				return err
			})
			s.apply()
			if after := s.state(); after != before {
				t.Errorf("left behind:\n%s\nwas:\n%s", after, before)
			}
		})
	}
}

// Packets beyond the horizon are dropped, except small ones.
func TestDropsBeyondTheHorizonOnly(t *testing.T) {
	s := newStage(t)
	shaper := s.shaper(direction.Ingress, 50*time.Millisecond)
	s.apply(shaper)
	const n, wire = 2000, 1000
	got, took := s.transfer(s.there, s.here, s.address(0), n, wire)
	c := s.counters(shaper)
	if int(c.Dropped+c.Early)+got != n || c.Dropped == 0 {
		t.Errorf("%d arrived; %+v", got, c)
	}
	if maximum := float64((took + shaper.Horizon + shaper.Burst) / time.Microsecond); float64(got*wire) > maximum {
		t.Errorf("%d bytes arrived in %v", got*wire, took)
	}
}

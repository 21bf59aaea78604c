// SPDX-License-Identifier: Apache-2.0

// Package conformance is the suite that every link carrier passes: all carriers have the same
// semantics, frame by frame.
//
// It counts frames, compares their bytes and checks lower bounds of delays. It has no upper bound
// of a time, so it holds on a busy machine and under an emulated kernel.
package conformance

import (
	"bytes"
	"context"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
	"weir/lab/link"
	"weir/lab/link/rawsock"
)

// bench is a cable between two hosts: a and b are sockets on the hosts' devices.
type bench struct {
	carrier         link.Carrier
	ns, left, right *netns.Namespace
	a, b            *rawsock.Socket
}

const (
	hostA, hostB = "weir-a", "weir-b" // devices of the hosts
	endA, endB   = "cable-a", "cable-b"
)

func newBench(t *testing.T, carrier link.Carrier, mtu int) *bench {
	t.Helper()
	b := &bench{carrier: carrier, ns: testutil.Namespace(t, "carrier"), left: testutil.Namespace(t, "a"), right: testutil.Namespace(t, "b")}
	conn := connect(t, b.ns)
	for _, end := range []struct {
		cable, host string
		ns          *netns.Namespace
		address     string
	}{{endA, hostA, b.left, "198.51.100.1/24"}, {endB, hostB, b.right, "198.51.100.2/24"}} {
		must(t, conn.AddVeth(end.cable, end.ns, end.host, mtu))
		must(t, conn.SetUp(end.cable))
		must(t, connect(t, end.ns).SetUp(end.host))
		must(t, link.Prepare(end.ns, end.host))
		// A multicast report that another CPU sends takes frames of the test along, which then
		// overtake each other at the entry of the link.
		must(t, link.Silence(end.ns, end.host))
		must(t, link.Thread(end.ns, end.host))
		must(t, connect(t, end.ns).AddAddress(end.host, netip.MustParsePrefix(end.address)))
	}
	b.a, b.b = socket(t, b.left, hostA), socket(t, b.right, hostB)
	return b
}

func connect(t *testing.T, ns *netns.Namespace) *rtnl.Conn {
	t.Helper()
	conn, err := rtnl.Open(ns)
	must(t, err)
	t.Cleanup(conn.Close)
	return conn
}

func socket(t *testing.T, ns *netns.Namespace, dev string) *rawsock.Socket {
	t.Helper()
	s, err := rawsock.Open(ns, dev, rawsock.All)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// carry starts the carrier on the bench's cable for the rest of the test.
func (b *bench) carry(t *testing.T, forward, reverse link.Direction) link.Carrying {
	t.Helper()
	cable := link.Cable{Name: "cable", A: endA, B: endB, Forward: forward, Reverse: reverse}
	must(t, b.carrier.Check(cable))
	carrying, err := b.carrier.Carry(context.Background(), b.ns, []link.Cable{cable})
	must(t, err)
	t.Cleanup(func() { must(t, carrying.Close()) })
	return carrying
}

func status(t *testing.T, carrying link.Carrying) link.Status {
	t.Helper()
	all, err := carrying.Status()
	must(t, err)
	if len(all) != 1 {
		t.Fatalf("status of %d cables, want 1", len(all))
	}
	return all[0]
}

// arrival is a frame that left the link.
type arrival struct {
	frame []byte
	at    time.Duration
}

// exchange sends frames from one side. It returns the send times and the arrivals at the other
// side, and ends when all frames have arrived or none came for the quiet time.
func exchange(t *testing.T, from, to *rawsock.Socket, frames [][]byte, want int, quiet time.Duration) (sent []time.Duration, got []arrival) {
	t.Helper()
	return send(t, from, frames), collect(t, to, want, quiet)
}

// send sends frames from one CPU: frames of several CPUs may overtake each other in the kernel,
// behind the link. It returns the send times.
func send(t *testing.T, from *rawsock.Socket, frames [][]byte) (sent []time.Duration) {
	t.Helper()
	defer testutil.OnOneCPU(t)()
	for _, frame := range frames {
		sent = append(sent, rawsock.Now())
		must(t, from.Send(t.Context(), frame))
	}
	return sent
}

func collect(t *testing.T, to *rawsock.Socket, want int, quiet time.Duration) (got []arrival) {
	t.Helper()
	buffer := make([]byte, 1<<16)
	for len(got) < want {
		some, err := to.Wait(quiet)
		must(t, err)
		if !some {
			return got
		}
		n, at, ok, err := to.Receive(buffer)
		must(t, err)
		if ok && ours(buffer[:n]) {
			got = append(got, arrival{bytes.Clone(buffer[:n]), at})
		}
	}
	return got
}

// Addresses of the suite's frames. Hosts now and then send frames of their own.
var addresses = []byte{0x02, 0x57, 0, 0, 0, 0xb, 0x02, 0x57, 0, 0, 0, 0xa}

func ours(frame []byte) bool { return len(frame) >= 14 && bytes.Equal(frame[6:8], addresses[6:8]) }

// numbered makes count frames of the second local experimental EtherType, each with its number
// after the header.
func numbered(count, length int) [][]byte {
	frames := make([][]byte, count)
	for i := range frames {
		f := make([]byte, length)
		copy(f, addresses)
		binary.BigEndian.PutUint16(f[12:], 0x88b6)
		binary.BigEndian.PutUint32(f[14:], uint32(i))
		for k := 18; k < length; k++ {
			f[k] = byte(i + k)
		}
		frames[i] = f
	}
	return frames
}

func number(a arrival) int { return int(binary.BigEndian.Uint32(a.frame[14:])) }

// SPDX-License-Identifier: Apache-2.0

package police

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
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/child"
	"weir/kernel/cgroup"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
)

// innerScope returns a data plane with the inner of two cgroups as scope 0, to be attached to the
// outer one.
func innerScope(t *testing.T) (p *DataPlane, outer, inner cgroup.Cgroup) {
	t.Helper()
	outer, inner = nested(t)
	p, err := Load(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	id, err := inner.ID()
	if err := errors.Join(err, p.AssignCgroup(id, 0)); err != nil {
		t.Fatal(err)
	}
	return p, outer, inner
}

// chargedSockets returns a namespace with a loopback device and a function that opens IPv4 sockets
// in it, in a cgroup with the plane.
func chargedSockets(t *testing.T, p *DataPlane) (ns *netns.Namespace, socket func(kind int) int) {
	t.Helper()
	group, ns := testutil.Cgroup(t), testutil.Namespace(t, "sockets")
	conn, err := rtnl.Open(ns)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	sockets, err := group.OpenSockets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sockets.Close() })
	if err := errors.Join(conn.SetUp("lo"), p.Attach(group.Path)); err != nil {
		t.Fatal(err)
	}
	return ns, func(kind int) int {
		fd, err := sockets.Socket(ns, unix.AF_INET, kind)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		return fd
	}
}

// limited starts a child in the inner cgroup with both cgroups as scopes: 0 is the inner, 1 the
// outer.
func limited(t *testing.T, inner, outer Limit) (*DataPlane, *child.Process) {
	t.Helper()
	outside, inside := nested(t)
	p, err := Load(2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	for scope, group := range []cgroup.Cgroup{inside, outside} {
		id, err := group.ID()
		if err != nil {
			t.Fatal(err)
		}
		if err := p.AssignCgroup(id, scope); err != nil {
			t.Fatal(err)
		}
		if err := p.Set(scope, Egress, []Limit{inner, outer}[scope]); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Attach(outside.Path); err != nil {
		t.Fatal(err)
	}
	process, err := child.Start(context.Background(), "load", os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Stop(5 * time.Second) })
	if err := inside.Add(process.PID()); err != nil {
		t.Fatal(err)
	}
	return p, process
}

// delivered makes a process send the messages of a task and waits for their arrival.
func delivered(t *testing.T, process *child.Process, client, server *netns.Namespace, address netip.Addr, messages, size int) {
	t.Helper()
	received := make(chan bool)
	sink := serve(t, server, address, func(conn net.Conn) {
		_, _ = io.Copy(io.Discard, conn)
		close(received)
	})
	work := task{Namespace: client.Name, Network: "tcp", Address: sink, Messages: messages, Size: size}
	if err := json.NewEncoder(process.In).Encode(work); err != nil {
		t.Fatal(err)
	}
	if err := process.Wait(); err != nil {
		t.Fatal(err)
	}
	<-received
}

func counters(t *testing.T, p *DataPlane, scope int) Counters {
	t.Helper()
	return countersAt(t, p, scope, Egress)
}

func countersAt(t *testing.T, p *DataPlane, scope int, direction Direction) Counters {
	t.Helper()
	c, err := p.Counters(scope, direction)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A drop by the outer scope refunds the inner one.
func TestDropRefundsInnerScopes(t *testing.T) {
	client, server, address := path(t)
	sink := udpSink(t, server, address)
	p, process := limited(t, slow(4, 50, 60), slow(4, 20, 30))
	work, began := task{Namespace: client.Name, Network: "udp", Address: sink, Messages: 200, Size: payload4}, time.Now()
	if err := json.NewEncoder(process.In).Encode(work); err != nil {
		t.Fatal(err)
	}
	if err := process.Wait(); err != nil {
		t.Fatal(err)
	}
	inner, outer := counters(t, p, 0), counters(t, p, 1)
	if inner.Dropped != 0 {
		t.Errorf("the inner scope refused %d packets that the outer one had refused already", inner.Dropped)
	}
	if outer.Packets < 32 || outer.Packets > 32+drained(began) || outer.Packets+outer.Dropped != 200 {
		t.Errorf("the outer scope admitted %d and refused %d, want 32 and 168", outer.Packets, outer.Dropped)
	}
	if inner.Bytes != outer.Bytes {
		t.Errorf("inner scope charged for %d octets, outer for %d", inner.Bytes, outer.Bytes)
	}
}

// A TCP transfer arrives complete, is charged for exactly its bytes on the wire, and stays below
// rate x time + burst + queue.
func TestTransferIsChargedForItsBytesOnTheWire(t *testing.T) {
	client, server, address := path(t)
	listener := listen(t, server, address)
	received := make(chan int64, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		n, _ := io.Copy(io.Discard, conn)
		_ = conn.Close()
		received <- n
	}()

	const rate, size = 100_000_000, 4 << 20
	l := Limit{Rate: rate}.WithDefaults()
	p, process := limited(t, l, Limit{Rate: MaxRate})
	before := transmitted(t, client)
	started := time.Now()
	work := task{Namespace: client.Name, Network: "tcp", Address: listener.Addr().String(), Messages: 64, Size: size / 64}
	if err := json.NewEncoder(process.In).Encode(work); err != nil {
		t.Fatal(err)
	}
	if err := process.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := <-received; n != size {
		t.Fatalf("%d octets arrived, want %d", n, size)
	}
	elapsed := time.Since(started)
	inner, outer := counters(t, p, 0), counters(t, p, 1)
	// The kernel's own socket, outside every cgroup, sends the acknowledgements of TIME-WAIT.
	const closing = 2 * (14 + 20 + 32)
	if wire := transmitted(t, client) - before; inner.Bytes > wire || inner.Bytes+closing < wire {
		t.Errorf("charged for %d octets, the device sent %d", inner.Bytes, wire)
	}
	if inner.Bytes != outer.Bytes {
		t.Errorf("inner scope charged for %d octets, outer for %d", inner.Bytes, outer.Bytes)
	}
	// The invariant of the virtual queue at any machine load; senders with nothing in flight may
	// use 4 x Drop.
	most := float64(rate) / 8 * (elapsed + l.Burst + 4*l.Drop).Seconds()
	if float64(inner.Bytes) > most {
		t.Errorf("%d octets in %s, at most %.0f are allowed", inner.Bytes, elapsed, most)
	}
}

// transmitted returns the bytes sent by the device.
func transmitted(t *testing.T, ns *netns.Namespace) uint64 {
	t.Helper()
	var n uint64
	err := ns.Do(func() error {
		// /proc/thread-self shows the namespace of the thread that has entered it.
		text, err := os.ReadFile("/proc/thread-self/net/dev")
		if err != nil {
			return err
		}
		return parseTransmitted(string(text), "eth0", &n)
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// parseTransmitted finds the ninth column of a device's line in /proc/net/dev.
func parseTransmitted(text, device string, n *uint64) error {
	for line := range strings.Lines(text) {
		name, rest, found := strings.Cut(strings.TrimSpace(line), ":")
		if !found || name != device {
			continue
		}
		fields := strings.Fields(rest)
		value, err := strconv.ParseUint(fields[8], 10, 64)
		*n = value
		return err
	}
	return fmt.Errorf("no device %s", device)
}

// SPDX-License-Identifier: Apache-2.0

package xsk_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/kernel/netns"
	"weir/kernel/probe"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
	"weir/kernel/xsk"
)

// end is one side of a veth pair with a socket on it.
type end struct {
	ns       *netns.Namespace
	index    int
	socket   *xsk.Socket
	redirect *xsk.Redirect
}

// pair makes two namespaces joined by a veth pair, with a socket of the same Umem on either side.
func pair(t *testing.T, umem *xsk.Umem, options xsk.Options, mtu int) (a, b *end) {
	t.Helper()
	testutil.Need(t, "AF_XDP", probe.AFXDP())
	a, b = &end{ns: testutil.Namespace(t, "a")}, &end{ns: testutil.Namespace(t, "b")}
	conn, err := rtnl.Open(a.ns)
	check(t, err)
	t.Cleanup(conn.Close)
	check(t, conn.AddVeth("left", b.ns, "right", mtu))
	open(t, a, "left", umem, options)
	open(t, b, "right", umem, options)
	return a, b
}

func open(t *testing.T, e *end, device string, umem *xsk.Umem, options xsk.Options) {
	t.Helper()
	conn, err := rtnl.Open(e.ns)
	check(t, err)
	t.Cleanup(conn.Close)
	check(t, conn.SetUp(device))
	found, err := conn.Device(device)
	check(t, err)
	e.index = found.Index
	check(t, e.ns.Do(func() (err error) {
		if e.socket, err = xsk.Open(umem, found.Index, 0, options); err != nil {
			return err
		}
		e.redirect, err = xsk.Attach(found.Index, options.MultiBuffer)
		return err
	}))
	t.Cleanup(func() {
		check(t, e.redirect.Close())
		check(t, e.socket.Close())
	})
	check(t, e.redirect.Bring(0, e.socket))
	e.socket.Fill()
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// frame builds the i-th frame of the local experimental EtherType; its length and octets depend on
// i.
func frame(i, length int) []byte {
	f := make([]byte, length)
	copy(f, []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5})
	binary.BigEndian.PutUint32(f[14:], uint32(i))
	for k := 18; k < length; k++ {
		f[k] = byte(i * k)
	}
	return f
}

// await polls until the socket has frames.
func await(t *testing.T, s *xsk.Socket, into []xsk.Desc) int {
	t.Helper()
	var n int
	testutil.Eventually(t, 5*time.Second, "a frame", func() bool {
		n = s.Receive(into)
		return n > 0
	})
	return n
}

func send(t *testing.T, s *xsk.Socket) {
	t.Helper()
	testutil.Eventually(t, 5*time.Second, "sending", func() bool {
		if err := s.Kick(); err != nil && !errors.Is(err, xsk.ErrAgain) {
			t.Fatal(err)
		}
		return s.Unsent() == 0
	})
}

// ours reports whether a received frame is one of the test's: the kernel may send its own on a new
// device.
func ours(b []byte) bool { return len(b) >= 18 && b[12] == 0x88 && b[13] == 0xb5 }

func TestFramesPassExactly(t *testing.T) {
	testutil.NeedRoot(t)
	umem, err := xsk.NewUmem(512, 2048)
	check(t, err)
	a, b := pair(t, umem, xsk.Options{Receive: 128, Transmit: 128}, 0)
	for _, way := range []struct {
		name     string
		from, to *end
	}{{"a to b", a, b}, {"b to a", b, a}} {
		var arrived [][]byte
		into := make([]xsk.Desc, 32)
		var before unix.Timespec
		check(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &before))
		const count = 300
		for i := range count {
			addr, ok := umem.Take()
			if !ok {
				t.Fatalf("no buffer for frame %d: %d available", i, umem.Available())
			}
			f := frame(i, 60+i*4)
			d := xsk.Desc{Addr: addr, Len: uint32(len(f))}
			copy(umem.Bytes(d), f)
			if !way.from.socket.Transmit(d) {
				t.Fatalf("transmit ring full at frame %d with %d outstanding", i, way.from.socket.Outstanding())
			}
			send(t, way.from.socket)
			for got := false; !got; {
				for _, d := range into[:await(t, way.to.socket, into)] {
					if ours(umem.Bytes(d)) {
						got = true
						arrived = append(arrived, bytes.Clone(umem.Bytes(d)))
						if s := umem.Stamp(d); s < before.Nano() {
							t.Errorf("%s: frame %d is stamped %d ns, before it was sent at %d", way.name, i, s, before.Nano())
						}
					}
					umem.Give(d.Addr)
				}
			}
			way.to.socket.Fill()
			way.from.socket.Reap()
		}
		for i, f := range arrived {
			if !bytes.Equal(f, frame(i, 60+i*4)) {
				t.Errorf("%s: frame %d is not the one sent", way.name, i)
			}
		}
	}
	// The kernel's own frames, such as a router solicitation, may follow the test's.
	testutil.Eventually(t, 5*time.Second, "all buffers accounted for", func() bool {
		have := umem.Available()
		for _, s := range []*xsk.Socket{a.socket, b.socket} {
			have += drain(umem, s) + s.Reap() + s.Filled()
		}
		return a.socket.Outstanding()+b.socket.Outstanding() == 0 && have == umem.Count()
	})
}

// drain frees the buffers of received frames and returns their number.
func drain(umem *xsk.Umem, s *xsk.Socket) int {
	into := make([]xsk.Desc, 32)
	n := s.Receive(into)
	for _, d := range into[:n] {
		umem.Give(d.Addr)
	}
	return n
}

func TestStatisticsCountFramesWithoutABuffer(t *testing.T) {
	testutil.NeedRoot(t)
	umem, err := xsk.NewUmem(256, 2048)
	check(t, err)
	a, b := pair(t, umem, xsk.Options{Receive: 64, Transmit: 64}, 0)
	// b's ring holds 64 buffers and has no reader: the rest of 80 frames is lost, and counted.
	for i := range 80 {
		addr, _ := umem.Take()
		d := xsk.Desc{Addr: addr, Len: 100}
		copy(umem.Bytes(d), frame(i, 100))
		testutil.Eventually(t, 5*time.Second, "a free descriptor", func() bool { a.socket.Reap(); return a.socket.Free() > 0 })
		a.socket.Transmit(d)
		send(t, a.socket)
	}
	testutil.Eventually(t, 5*time.Second, "16 frames counted as lost", func() bool {
		s, err := b.socket.Statistics()
		check(t, err)
		return s.FillEmpty+s.RxRingFull+s.RxDropped >= 16
	})
}

func TestMultiBufferCarriesJumboFrames(t *testing.T) {
	testutil.NeedRoot(t)
	umem, err := xsk.NewUmem(256, 4096)
	check(t, err)
	a, b := pair(t, umem, xsk.Options{Receive: 64, Transmit: 64, MultiBuffer: true}, 9000)
	want := frame(7, 9014)
	for rest := want; len(rest) > 0; {
		addr, _ := umem.Take()
		d := xsk.Desc{Addr: addr, Len: uint32(min(len(rest), 4096))}
		copy(umem.Bytes(d), rest)
		if rest = rest[d.Len:]; len(rest) > 0 {
			d.Flags = xsk.Continues
		}
		if !a.socket.Transmit(d) {
			t.Fatal("transmit ring full")
		}
	}
	send(t, a.socket)
	var got []byte
	into := make([]xsk.Desc, 1)
	for whole := false; !whole; {
		await(t, b.socket, into)
		got = append(got, umem.Bytes(into[0])...)
		umem.Give(into[0].Addr)
		if whole = into[0].Flags&xsk.Continues == 0; whole && !ours(got) {
			got, whole = nil, false
		}
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d octets arrived, not the %d sent", len(got), len(want))
	}
}

func TestDataPathAllocatesNothing(t *testing.T) {
	testutil.NeedRoot(t)
	umem, err := xsk.NewUmem(256, 2048)
	check(t, err)
	a, b := pair(t, umem, xsk.Options{Receive: 64, Transmit: 64}, 0)
	into := make([]xsk.Desc, 64)
	f := frame(1, 100)
	if n := testing.AllocsPerRun(100, func() {
		addr, _ := umem.Take()
		d := xsk.Desc{Addr: addr, Len: uint32(len(f))}
		copy(umem.Bytes(d), f)
		a.socket.Transmit(d)
		_ = a.socket.Kick()
		for _, d := range into[:b.socket.Receive(into)] {
			umem.Give(d.Addr)
		}
		b.socket.Fill()
		a.socket.Reap()
	}); n != 0 {
		t.Errorf("%v allocations per frame", n)
	}
}

func TestWrongSizesAreRefused(t *testing.T) {
	if _, err := xsk.NewUmem(16, 1500); err == nil {
		t.Error("buffers of 1500 octets were accepted")
	}
	if _, err := xsk.NewUmem(0, 2048); err == nil {
		t.Error("a Umem without buffers was accepted")
	}
	testutil.NeedRoot(t)
	umem, err := xsk.NewUmem(16, 2048)
	check(t, err)
	if _, err := xsk.Open(umem, 1, 0, xsk.Options{Receive: 100}); err == nil {
		t.Error("a ring of 100 entries was accepted")
	}
	if _, err := xsk.Open(umem, 1, 0, xsk.Options{}); err == nil {
		t.Error("a socket without rings was accepted")
	}
}

// SPDX-License-Identifier: Apache-2.0

package police

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

	"golang.org/x/sys/unix"

	"weir/kernel/testutil"
)

// At a low rate TCP must not send its usual super-packets of half an unbounded window, or of 64 KiB
// on a short path. The window of one flow at 1 Mbit/s holds 8 full-sized packets for the mark
// threshold plus a quarter, so super-packets have at most 5 or 6.
func TestSuperPacketsFitALowRate(t *testing.T) {
	client, server, address := path(t)
	listener := listen(t, server, address)
	received := make(chan bool)
	go func() {
		defer close(received)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
	}()
	p, process := limited(t, Limit{Rate: 1_000_000}, Limit{Rate: MaxRate})
	work := task{Namespace: client.Name, Network: "tcp", Address: listener.Addr().String(), Messages: 8, Size: 16 << 10}
	if err := json.NewEncoder(process.In).Encode(work); err != nil {
		t.Fatal(err)
	}
	if err := process.Wait(); err != nil {
		t.Fatal(err)
	}
	<-received
	if c := counters(t, p, 0); c.Segments < 80 || c.Segments > 6*c.Packets {
		t.Errorf("%d segments in %d super-packets, want at most 6 in one", c.Segments, c.Packets)
	}
}

// On a path without delay a rate of 500 kbit/s leaves a receiver the minimum window, two segments.
// Release restores its own window. Its round-trip times count in both directions.
func TestReceiveWindowIsClampedAndSetFree(t *testing.T) {
	client, server, address := path(t)
	p, outer, inner := innerScope(t)
	needStorage(t, p)
	listener := echo(t, server, address)
	if err := errors.Join(p.Set(0, Ingress, Limit{Rate: 500_000}), p.Set(0, Egress, Limit{Rate: MaxRate}), p.Attach(outer.Path)); err != nil {
		t.Fatal(err)
	}
	process, answers := talker(t, inner, client, listener)
	clamp := func() (clamp int) {
		t.Helper()
		var rate uint32
		if !answers.Scan() {
			t.Fatal("the talker has ended")
		}
		if _, err := fmt.Sscan(answers.Text(), &rate, &clamp); err != nil {
			t.Fatal(err)
		}
		return clamp
	}
	const least = 2 * 1460
	// The last acknowledgement of the handshake sets it. The kernel's autotuning raises it while
	// the application reads, and the next acknowledgement lowers it again.
	if got := clamp(); got > least {
		t.Errorf("the window is clamped to %d octets, want at most %d", got, least)
	}
	exchange := func() int {
		t.Helper()
		if _, err := fmt.Fprintln(process.In); err != nil {
			t.Fatal(err)
		}
		return clamp()
	}
	exchange()
	in, err1 := p.Counters(0, Ingress)
	out, err2 := p.Counters(0, Egress)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if in.Windows == 0 || out.Windows != 0 {
		t.Errorf("%d windows were counted at ingress and %d at egress, want some and none", in.Windows, out.Windows)
	}
	if in.RTT == [32]uint64{} || in.RTT != out.RTT || in.RTTSum != out.RTTSum {
		t.Errorf("round-trip times at ingress %v (%d µs), at egress %v (%d µs), want the same", in.RTT, in.RTTSum, out.RTT, out.RTTSum)
	}
	if p.objects.LimitFree == nil {
		testutil.Need(t, "tracing", ErrNoIterator)
	}
	if err := errors.Join(p.closeLinks(), p.Free(client)); err != nil {
		t.Fatal(err)
	}
	if got := exchange(); got <= least {
		t.Errorf("the freed window is clamped to %d octets", got)
	}
}

// needStorage skips the test on kernels without socket storage, on which packets are charged and
// sockets not modified.
func needStorage(t *testing.T, p *DataPlane) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	sockets := p.objects.LimitSockets
	if err := sockets.Put(int32(fd), make([]byte, sockets.ValueSize())); err != nil {
		testutil.Need(t, "sk_storage-updates", err)
	}
}

func TestPercentileIsABucketsUpperBound(t *testing.T) {
	counts := [32]uint64{0: 50, 3: 49, 10: 1}
	for p, want := range map[float64]float64{0.5: 2, 0.51: 16, 0.99: 16, 1: 2048} {
		if got := Percentile(counts, p); got != want {
			t.Errorf("percentile %g is %g µs, want %g", p, got, want)
		}
	}
	if got := Percentile([32]uint64{}, 0.5); got != 0 {
		t.Errorf("without counts %g", got)
	}
}

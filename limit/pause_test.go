// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// caller is a TCP socket that a limit at egress paces, connected to an echo.
type caller struct {
	plane *DataPlane
	fd    int
}

func newCaller(t *testing.T) *caller {
	t.Helper()
	client, server, address := path(t)
	listener := echo(t, server, address)
	p, sockets := socketsBelow(t, Egress, Limit{Rate: MaxRate})
	fd, err := connected(sockets, client, listener)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	c := &caller{plane: p, fd: fd}
	c.call(t)
	return c
}

// limit gives the scope a limit and a fair rate, octet/s, that stands still.
func (c *caller) limit(t *testing.T, l Limit, fair uint64) {
	t.Helper()
	// No interval ends within an hour.
	state := limitLimitState{FairRate: fair, IntervalStartNs: uint64(clock(t)), IntervalLeastNs: uint64(time.Hour)}
	if err := errors.Join(c.plane.Set(0, Egress, l), c.plane.objects.LimitStates.Put(uint32(Egress), &state)); err != nil {
		t.Fatal(err)
	}
}

// call sends a segment and waits for the answer, so that all has been acknowledged and an RTT
// sample was taken.
func (c *caller) call(t *testing.T) {
	t.Helper()
	message := make([]byte, 1000)
	if _, err := unix.Write(c.fd, message); err != nil {
		t.Fatal(err)
	}
	for left := len(message); left > 0; {
		n, err := unix.Read(c.fd, message[:left])
		if n <= 0 && err != unix.EINTR {
			t.Fatalf("%d octets, %v", n, err)
		}
		left -= max(n, 0)
	}
}

// pacedAfter changes what the data plane keeps of the socket, and returns the rate that the next
// call has it paced at.
func (c *caller) pacedAfter(t *testing.T, change func(*limitSocketState)) uint64 {
	t.Helper()
	var state limitSocketState
	if err := c.plane.objects.LimitSockets.Lookup(int32(c.fd), &state); err != nil {
		t.Fatal(err)
	}
	change(&state)
	state.PaceRead.Value, state.PaceVersion = 0, 0 // the next sample looks at everything, also within the same tick
	if err := c.plane.objects.LimitSockets.Put(int32(c.fd), &state); err != nil {
		t.Fatal(err)
	}
	c.call(t)
	rate, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE)
	if err != nil {
		t.Fatal(err)
	}
	return uint64(uint32(rate))
}

// A sender that is behind the fair rate is paced faster by a quarter of it for each eighth of a
// mark threshold, three times the fair rate and the scope's own rate at most, but not where a mark
// threshold holds a few packets of it. The state of the socket says how far it is behind; the mark
// threshold is so long that the time of a call makes no difference.
func TestSenderThatIsBehindCatchesUp(t *testing.T) {
	const (
		octets = 3_000_000_000 // a second's of the scope; SO_MAX_PACING_RATE has 32 bits
		fifth  = octets / 5
		mark   = 40 * time.Second
		half   = mark/2 + mark/16 // between two steps
	)
	call := newCaller(t)
	for name, c := range map[string]struct {
		fair   uint64 // octet/s
		mark   time.Duration
		behind time.Duration // with the last sample
		since  time.Duration // the last sample
		acked  uint64        // octets since
		want   uint64        // octet/s
	}{
		"as fast as it may":             {fifth, mark, 0, 0, 0, fifth},
		"behind by half":                {fifth, mark, half, 0, 0, fifth * 2},
		"behind by more than all":       {fifth, mark, 2 * mark, 0, 0, fifth * 3},
		"ahead":                         {fifth, mark, -mark, 0, 0, fifth},
		"has waited":                    {fifth, mark, 0, half, 0, fifth * 2},
		"has waited, but was ahead":     {fifth, mark, -half, half / 2, 0, fifth},
		"behind, and has sent as much":  {fifth, mark, half, 0, fifth * 23, fifth},
		"has waited, and sent as much":  {fifth, mark, 0, half, fifth * 22, fifth},
		"has had nothing to send":       {fifth, mark, mark, 5 * mark, 0, fifth},
		"near the limit":                {octets / 5 * 4, mark, mark * 2, 0, 0, octets},
		"a few packets, behind by more": {fifth, 20 * time.Microsecond, time.Second, 0, 0, fifth},
	} {
		t.Run(name, func(t *testing.T) {
			call.limit(t, Limit{Rate: 8 * octets, Mark: c.mark, Drop: 50 * time.Second}, c.fair)
			paced := call.pacedAfter(t, func(s *limitSocketState) {
				s.BehindNs, s.AckedNs, s.Fair, s.Acked = int64(c.behind), clock(t)-int64(c.since), c.fair, s.Acked-c.acked
			})
			// The data plane leaves alone what differs by less than a sixty-fourth.
			if paced < c.want-c.want/64 || paced > c.want+c.want/64 {
				t.Errorf("paced at %d octet/s, want %d", paced, c.want)
			}
		})
	}
}

// The application's own rate holds, however far its sender is behind.
func TestSenderThatIsBehindKeepsTheApplicationsRate(t *testing.T) {
	const octets, own, mark = 3_000_000_000, 1_000_000, 40 * time.Second
	call := newCaller(t)
	call.limit(t, Limit{Rate: 8 * octets, Mark: mark, Drop: 50 * time.Second}, octets/5)
	if err := unix.SetsockoptInt(call.fd, unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE, own); err != nil {
		t.Fatal(err)
	}
	if paced := call.pacedAfter(t, func(s *limitSocketState) { s.BehindNs, s.AckedNs = int64(mark), clock(t) }); paced != own {
		t.Errorf("paced at %d octet/s, the application has set %d", paced, own)
	}
}

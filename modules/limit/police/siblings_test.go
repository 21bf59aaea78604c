// SPDX-License-Identifier: Apache-2.0

package police

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/child"
	"weir/internal/units"
	"weir/kernel/cgroup"
	"weir/kernel/netns"
	"weir/kernel/testutil"
)

// greed is the traffic of the part "greedy" inside a cgroup: TCP flows with endless data until its
// input ends.
type greed struct {
	Namespace, Address, Congestion string
	Flows                          int
}

// greedy waits for its task, which arrives after the move into its cgroup.
func greedy(in io.Reader, out io.Writer) error {
	var work greed
	decoder := json.NewDecoder(in)
	if err := decoder.Decode(&work); err != nil {
		return err
	}
	ns, err := netns.Open(work.Namespace)
	if err != nil {
		return err
	}
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		failed := raw.Control(func(fd uintptr) {
			err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, work.Congestion)
		})
		if failed != nil {
			return failed
		}
		return err
	}}
	for range work.Flows {
		var conn net.Conn
		err := ns.Do(func() (err error) {
			conn, err = dialer.Dial("tcp", work.Address)
			return err
		})
		if err != nil {
			return err
		}
		go func() { _, _ = io.Copy(conn, endless{}) }()
	}
	if _, err := fmt.Fprintln(out, "sending"); err != nil {
		return err
	}
	_, _ = decoder.Token() // the end of the input
	return nil
}

// endless is a source of zeros.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// family is a parent, scope 2, without a cgroup, and two children with a cgroup each, scopes 0 and
// 1.
type family struct {
	plane  *DataPlane
	groups [2]cgroup.Cgroup
	client *netns.Namespace
	sink   string
}

// parentRate is the parent's rate, low enough for a busy machine.
const parentRate units.BitRate = 40_000_000

func newFamily(t *testing.T, children [2]Limit) *family {
	t.Helper()
	client, server, address := path(t)
	outer, first := nested(t)
	second, err := cgroup.Create(outer.Path, "second")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		testutil.Eventually(t, 5*time.Second, "the removal of the test's cgroup", func() bool { return second.Remove() == nil })
	})
	p, err := Load(3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	if err := p.Set(2, Egress, Limit{Rate: parentRate}); err != nil {
		t.Fatal(err)
	}
	f := &family{plane: p, groups: [2]cgroup.Cgroup{first, second}, client: client, sink: swallow(t, server, address)}
	for scope, group := range f.groups {
		id, err := group.ID()
		if err != nil {
			t.Fatal(err)
		}
		if err := p.AssignCgroup(id, scope); err != nil {
			t.Fatal(err)
		}
		if err := p.SetParent(scope, 2); err != nil {
			t.Fatal(err)
		}
		if err := p.Set(scope, Egress, children[scope]); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Attach(outer.Path); err != nil {
		t.Fatal(err)
	}
	return f
}

// swallow reads and discards the data of TCP connections.
func swallow(t *testing.T, server *netns.Namespace, address netip.Addr) string {
	t.Helper()
	return serve(t, server, address, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
}

// send starts greedy flows in a child's cgroup; stop ends them.
func (f *family) send(t *testing.T, scope, flows int, congestion string) (stop func()) {
	t.Helper()
	process, err := child.Start(context.Background(), "greedy", os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	stop = func() { _ = process.Stop(5 * time.Second) }
	t.Cleanup(stop)
	if err := f.groups[scope].Add(process.PID()); err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(process.In).Encode(greed{f.client.Name, f.sink, congestion, flows}); err != nil {
		t.Fatal(err)
	}
	var said string
	if _, err := fmt.Fscanln(process.Out, &said); err != nil {
		t.Fatalf("greedy flows did not start: %v", err)
	}
	return stop
}

// rates counts for a while and returns the charged rate of each scope in bit/s.
func (f *family) rates(t *testing.T, while time.Duration) (rates [3]float64) {
	t.Helper()
	var before [3]uint64
	began := time.Now()
	for scope := range before {
		before[scope] = counters(t, f.plane, scope).Bytes
	}
	time.Sleep(while)
	elapsed := time.Since(began).Seconds()
	for scope := range rates {
		rates[scope] = float64(counters(t, f.plane, scope).Bytes-before[scope]) * 8 / elapsed
	}
	return rates
}

// settles measures until an interval satisfies the condition: on a busy machine the senders do not
// always run, and on a slow test kernel they may never. obeys asserts the upper bound over the
// whole time.
func (f *family) settles(t *testing.T, what string, condition func(rates [3]float64) bool) {
	t.Helper()
	const while = 250 * time.Millisecond
	tries, slow := 60, testutil.KnownAbsent(os.Getenv("TEST_KERNEL"), "speed")
	if slow {
		tries = 8
	}
	var seen []string
	for range tries {
		rates := f.rates(t, while)
		if condition(rates) {
			return
		}
		seen = append(seen, fmt.Sprintf("%.1f + %.1f = %.1f", rates[0]/1e6, rates[1]/1e6, rates[2]/1e6))
	}
	if slow {
		t.Logf("%s: not seen, but this kernel lacks speed: %v", what, seen)
		return
	}
	t.Errorf("%s: in none of %d measurements, Mbit/s: %v", what, tries, seen)
	for scope := range 3 {
		state, err := f.plane.State(scope, Egress)
		t.Logf("scope %d: %+v, %+v (%v)", scope, state, counters(t, f.plane, scope), err)
	}
}

// obeys returns a check that a scope was charged at most its rate since, at any machine load:
// beside the burst, senders with nothing in flight and guaranteed packets may use four drop
// thresholds.
func (f *family) obeys(t *testing.T, scope int, rate units.BitRate) (check func()) {
	l, began, before := Limit{Rate: rate}.WithDefaults(), time.Now(), counters(t, f.plane, scope).Bytes
	return func() {
		t.Helper()
		used := counters(t, f.plane, scope).Bytes - before
		if most := float64(rate) / 8 * (time.Since(began) + l.Burst + 4*l.Drop).Seconds(); float64(used) > most {
			t.Errorf("scope %d used %d octets, at most %.0f are allowed", scope, used, most)
		}
	}
}

// congestions returns the congestion controls that the kernel offers.
func congestions(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(string(text)) {
		if name == "cubic" || name == "bbr" {
			names = append(names, name)
		}
	}
	return names
}

func within(got, want, part float64) bool { return got > want*(1-part) && got < want*(1+part) }

func TestSiblingsShareByWeight(t *testing.T) {
	for _, congestion := range congestions(t) {
		for _, flows := range [][2]int{{1, 1}, {8, 1}, {1, 8}} {
			t.Run(fmt.Sprintf("%s, %d and %d flows", congestion, flows[0], flows[1]), func(t *testing.T) {
				f := newFamily(t, [2]Limit{{Rate: parentRate, Weight: 1}, {Rate: parentRate, Weight: 3}})
				check := f.obeys(t, 2, parentRate)
				f.send(t, 0, flows[0], congestion)
				stop := f.send(t, 1, flows[1], congestion)
				f.settles(t, "one part to three", func(r [3]float64) bool {
					return within(r[1], 3*r[0], 0.1) && r[2] > 0.9*float64(parentRate)
				})
				stop()
				f.settles(t, "all for the one that is left", func(r [3]float64) bool {
					return r[0] > 0.9*float64(parentRate)
				})
				check()
			})
		}
	}
}

func TestMinimumHoldsAgainstGreedySiblings(t *testing.T) {
	const least = 10_000_000
	for _, congestion := range congestions(t) {
		t.Run(congestion, func(t *testing.T) {
			f := newFamily(t, [2]Limit{{Rate: parentRate, Min: least, Weight: 1}, {Rate: parentRate, Weight: 10}})
			check := f.obeys(t, 2, parentRate)
			f.send(t, 1, 8, congestion)
			f.send(t, 0, 1, congestion)
			f.settles(t, "the minimum, and the rest for the sibling", func(r [3]float64) bool {
				return r[0] > 0.9*least && r[0] < 1.1*least && r[2] > 0.9*float64(parentRate)
			})
			check()
		})
	}
}

func TestMaximumHoldsWhileSiblingsAreIdle(t *testing.T) {
	const most = 10_000_000
	f := newFamily(t, [2]Limit{{Rate: most, Weight: 1}, {Rate: parentRate, Weight: 1}})
	check := f.obeys(t, 0, most)
	f.send(t, 0, 2, "cubic")
	f.settles(t, "the maximum", func(r [3]float64) bool { return r[0] > 0.9*most })
	check()
}

func TestWeightsChangeWhileTrafficRuns(t *testing.T) {
	f := newFamily(t, [2]Limit{{Rate: parentRate, Weight: 1}, {Rate: parentRate, Weight: 3}})
	f.send(t, 0, 2, "cubic")
	f.send(t, 1, 2, "cubic")
	f.settles(t, "one part to three", func(r [3]float64) bool { return within(r[1], 3*r[0], 0.1) })
	before := counters(t, f.plane, 0)
	for scope, weight := range []int{200, 100} {
		if err := f.plane.Set(scope, Egress, Limit{Rate: parentRate, Weight: weight}); err != nil {
			t.Fatal(err)
		}
	}
	f.settles(t, "two parts to one", func(r [3]float64) bool { return within(r[0], 2*r[1], 0.1) })
	if after := counters(t, f.plane, 0); after.Bytes < before.Bytes {
		t.Errorf("%d octets were counted before the change, %d after", before.Bytes, after.Bytes)
	}
}

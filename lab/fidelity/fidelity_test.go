// SPDX-License-Identifier: Apache-2.0

package fidelity_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/child"
	"weir/internal/units"
	"weir/kernel/netns"
	"weir/kernel/probe"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
	"weir/lab/fidelity"
	"weir/lab/link"
	"weir/lab/link/emulator"
	"weir/lab/link/loss"
	"weir/lab/link/netem"
)

func TestMain(m *testing.M) {
	child.Main(child.Parts{emulator.PartName: emulator.Part})
	m.Run()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// testbed is one emulated link between two hosts.
func testbed(t *testing.T, forward, reverse link.Direction) (a, b fidelity.Endpoint, carrying link.Carrying) {
	t.Helper()
	testutil.NeedRoot(t)
	testutil.Need(t, "AF_XDP", probe.AFXDP())
	return carried(t, emulator.New(emulator.Options{}), forward, reverse)
}

func carried(t *testing.T, by link.Carrier, forward, reverse link.Direction) (a, b fidelity.Endpoint, carrying link.Carrying) {
	t.Helper()
	carrier := testutil.Namespace(t, "carrier")
	conn, err := rtnl.Open(carrier)
	must(t, err)
	t.Cleanup(conn.Close)
	host := func(end string) fidelity.Endpoint {
		ns := testutil.Namespace(t, end)
		must(t, conn.AddVeth("end-"+end, ns, "host", 0))
		must(t, conn.SetUp("end-"+end))
		up(t, ns, "host")
		must(t, link.Prepare(ns, "host"))
		must(t, link.Thread(ns, "host"))
		return fidelity.Endpoint{Namespace: ns, Device: "host"}
	}
	a, b = host("a"), host("b")
	carrying, err = by.Carry(context.Background(), carrier, []link.Cable{
		{Name: "wan", A: "end-a", B: "end-b", Forward: forward, Reverse: reverse},
	})
	must(t, err)
	t.Cleanup(func() { must(t, carrying.Close()) })
	return a, b, carrying
}

func up(t *testing.T, ns *netns.Namespace, dev string) {
	t.Helper()
	conn, err := rtnl.Open(ns)
	must(t, err)
	defer conn.Close()
	must(t, conn.SetUp(dev))
}

func TestCalibrationFindsWhatIsThere(t *testing.T) {
	t.Run("emulator", func(t *testing.T) {
		testutil.NeedRoot(t)
		testutil.Need(t, "AF_XDP", probe.AFXDP())
		findsWhatIsThere(t, emulator.New(emulator.Options{}))
	})
	t.Run("netem", func(t *testing.T) {
		testutil.NeedRoot(t)
		testutil.Need(t, "netem", probe.Netem())
		findsWhatIsThere(t, netem.New())
	})
}

func findsWhatIsThere(t *testing.T, carrier link.Carrier) {
	forward := link.Direction{
		Rate: 20e6, Delay: 10 * time.Millisecond, Queue: link.Queue{Packets: 100}, Seed: 1,
		Loss: loss.Of(loss.Independent{Probability: 0.05}),
	}
	a, b, _ := carried(t, carrier, forward, link.Direction{})
	c, err := fidelity.Calibrate(t.Context(), fidelity.Link{Name: "wan", A: a, B: b, Forward: forward})
	must(t, err)
	t.Logf("%+v", c)
	m := c.Forward
	// Load on the machine cannot change these: no frame is faster than its delay, and losses are
	// losses. If the emulator is late, frames may arrive at any rate.
	if m.DelayMin < forward.Delay || m.Rate == 0 {
		t.Errorf("a delay of %s and a rate of %s were measured", m.DelayMin, m.Rate)
	}
	if m.Sent < 1000 || m.Loss < m.LossLow || m.Loss > m.LossHigh {
		t.Errorf("%d frames sent, a loss of %v; want %v to %v", m.Sent, m.Loss, m.LossLow, m.LossHigh)
	}
}

func TestCalibrationRejectsAnotherLink(t *testing.T) {
	is := link.Direction{Rate: 10e6, Delay: 20 * time.Millisecond, Queue: link.Queue{Packets: 100}, Loss: loss.Of(loss.EveryNth{Nth: 10})}
	a, b, _ := testbed(t, is, is)
	asked := link.Direction{Rate: 20e6, Delay: 5 * time.Millisecond, Queue: link.Queue{Packets: 100}}
	c, err := fidelity.Calibrate(t.Context(), fidelity.Link{Name: "wan", A: a, B: b, Forward: asked, Reverse: asked})
	must(t, err)
	if c.OK() {
		t.Fatal("a link that is nothing like what was asked calibrates")
	}
	all := strings.Join(c.Problems, "\n")
	for _, want := range []string{"wan forward: the rate is", "lost, asked 0 %", "the delay is", "wan reverse:"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is missing in\n%s", want, all)
		}
	}
}

// Both directions of several links are probed at once, and each keeps its own result.
func TestEachDirectionOfSeveralLinksIsItsOwn(t *testing.T) {
	queue := link.Queue{Packets: 100}
	there := link.Direction{Rate: 10e6, Delay: 10 * time.Millisecond, Queue: queue}
	back := link.Direction{Rate: 20e6, Delay: 30 * time.Millisecond, Queue: queue}
	var links []fidelity.Link
	for _, name := range []string{"x", "y", "z"} {
		a, b, _ := testbed(t, there, back)
		links = append(links, fidelity.Link{Name: name, A: a, B: b, Forward: there, Reverse: back})
		there, back = back, there
	}
	all, err := fidelity.CalibrateAll(t.Context(), links)
	must(t, err)
	if len(all) != len(links) && (len(all) != 1 || all[0].OK()) {
		t.Fatalf("%d links, and the calibrations %+v", len(links), all)
	}
	for _, c := range all { // independent of load: no frame is faster than its delay
		l := links[slices.IndexFunc(links, func(l fidelity.Link) bool { return l.Name == c.Link })]
		for n, way := range []struct {
			asked    link.Direction
			measured fidelity.Measured
		}{{l.Forward, c.Forward}, {l.Reverse, c.Reverse}} {
			if way.measured.Sent == 0 && !c.OK() {
				continue // a probe of the other direction failed
			}
			if way.measured.DelayMin < way.asked.Delay || way.measured.Rate == 0 {
				t.Errorf("link %s, direction %d: a delay of %s and a rate of %s were measured", c.Link, n, way.measured.DelayMin, way.measured.Rate)
			}
		}
	}
}

func TestCalibrationOfADeadLinkIsAnError(t *testing.T) {
	dead := link.Direction{Loss: loss.Of(loss.Independent{Probability: 1})}
	a, b, _ := testbed(t, dead, dead)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if c, err := fidelity.Calibrate(ctx, fidelity.Link{Name: "wan", A: a, B: b}); err == nil {
		t.Errorf("a link that loses all frames calibrates: %+v", c)
	}
}

// loose violates its limits for lost frames only.
func loose() fidelity.Limits {
	return fidelity.Limits{LatenessP50: time.Minute, LatenessP99: time.Minute, Stall: time.Minute, Behind: 2, Busy: 2, Steal: 2}
}

func TestWatchAcceptsAQuietRun(t *testing.T) {
	a, b, carrying := testbed(t, link.Direction{Delay: time.Millisecond}, link.Direction{})
	watch, err := fidelity.NewWatch(carrying, []fidelity.Endpoint{a, b}, loose())
	must(t, err)
	_, err = fidelity.Calibrate(t.Context(), fidelity.Link{Name: "wan", A: a, B: b, Forward: link.Direction{Delay: time.Millisecond}})
	must(t, err)
	j, err := watch.Finish()
	must(t, err)
	if !j.Valid || len(j.Reasons) > 0 || j.Drops != 0 || j.Overruns != 0 {
		t.Errorf("judged %+v", j)
	}
	if j.LatenessP50 <= 0 || j.LatenessP99 < j.LatenessP50 || len(j.Busy) == 0 {
		t.Errorf("lateness %s and %s, CPUs %v: something was not measured", j.LatenessP50, j.LatenessP99, j.Busy)
	}
}

func TestWatchRejectsLateness(t *testing.T) {
	a, b, carrying := testbed(t, link.Direction{}, link.Direction{})
	limits := loose()
	limits.LatenessP50, limits.LatenessP99 = 1, 1
	watch, err := fidelity.NewWatch(carrying, []fidelity.Endpoint{a, b}, limits)
	must(t, err)
	_, err = fidelity.Calibrate(t.Context(), fidelity.Link{Name: "wan", A: a, B: b})
	must(t, err)
	j, err := watch.Finish()
	must(t, err)
	if j.Valid || !strings.Contains(strings.Join(j.Reasons, "\n"), "1ns are tolerated") {
		t.Errorf("judged %+v", j)
	}
}

func TestWatchRejectsLostFrames(t *testing.T) {
	a, b, carrying := testbed(t, link.Direction{}, link.Direction{})
	watch, err := fidelity.NewWatch(carrying, []fidelity.Endpoint{a, b}, loose())
	must(t, err)
	// The frame is larger than the emulator's buffers. The veth accepts it, because its MTU was
	// raised after the emulator attached.
	conn, err := rtnl.Open(a.Namespace)
	must(t, err)
	defer conn.Close()
	must(t, conn.SetMTU(a.Device, 3000))
	_, err = fidelity.Calibrate(t.Context(), fidelity.Link{Name: "wan", A: a, B: b, Forward: link.Direction{Rate: 1e9}})
	must(t, err)
	j, err := watch.Finish()
	must(t, err)
	if j.Valid || j.Overruns+j.Drops == 0 {
		t.Errorf("judged %+v", j)
	}
}

func TestCapacityChoosesAmongTheRatesAndLeavesNothing(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Need(t, "AF_XDP", probe.AFXDP())
	own := fmt.Sprintf("weir-capacity-%d-", os.Getpid()) // another test may measure too
	rates := []units.BitRate{2e6, 1e15}
	capable, err := fidelity.Capacity(t.Context(), emulator.New(emulator.Options{}), link.Direction{Queue: link.Queue{Packets: 100}}, rates)
	must(t, err)
	t.Logf("%+v", capable)
	if capable.Rate == 1e15 || len(capable.Failed) == 0 {
		t.Errorf("this machine is said to carry 1 Pbit/s: %+v", capable)
	}
	if said := capable.Explain(1e15).Error(); !strings.Contains(said, "1000 Tbit/s cannot be carried") {
		t.Errorf("explained as %q", said)
	}
	if left, err := netns.List(own); err != nil || len(left) > 0 {
		t.Errorf("namespaces are left: %v, %v", left, err)
	}
}

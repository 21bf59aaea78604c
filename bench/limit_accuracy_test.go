// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"weir/internal/child"
	"weir/internal/direction"
	"weir/internal/units"
	"weir/kernel/testutil"
	"weir/modules/limit/police"
	"weir/record/stats"
)

// limitGrid lists the cells of BenchmarkLimitAccuracy: by default a few that show in some seconds
// whether limits hold. The environment overrides each field, lists with commas, for instance
//
//	WEIR_LIMIT_LOADS=cubic,cubic-ecn,bbr,dctcp WEIR_LIMIT_RATES=1Mbit,10Mbit,100Mbit,1Gbit WEIR_LIMIT_FLOWS=1,8,32,128 \
//	WEIR_LIMIT_REPEAT=5 WEIR_LIMIT_WARM=5s WEIR_LIMIT_TIME=5s make bench-once BENCH=LimitAccuracy
//
// WEIR_LIMIT_TSO=1 makes the link carry super-packets whole, so that the testkernel's slow guest
// reaches 3 Gbit/s with one flow.
type limitGrid struct {
	loads  []string // limitCell's
	rates  []units.BitRate
	flows  []int
	repeat int
	warm   time.Duration // before the measurement
	time   time.Duration // of one measurement
}

func readLimitGrid(b *testing.B) limitGrid {
	b.Helper()
	g := limitGrid{repeat: 1}
	value := func(name, fallback string) string {
		if v := os.Getenv("WEIR_LIMIT_" + name); v != "" {
			return v
		}
		return fallback
	}
	g.loads = strings.Split(value("LOADS", "cubic,bbr,udp,cubic-ingress"), ",")
	var err error
	for _, text := range strings.Split(value("RATES", "10Mbit,100Mbit"), ",") {
		rate, failed := units.ParseBitRate(text)
		err = errors.Join(err, failed)
		g.rates = append(g.rates, rate)
	}
	for _, text := range strings.Split(value("FLOWS", "8"), ",") {
		var n int
		_, failed := fmt.Sscan(text, &n)
		err = errors.Join(err, failed)
		g.flows = append(g.flows, n)
	}
	_, failed := fmt.Sscan(value("REPEAT", "1"), &g.repeat)
	err = errors.Join(err, failed)
	g.warm, failed = units.ParseDuration(value("WARM", "500ms"))
	err = errors.Join(err, failed)
	g.time, failed = units.ParseDuration(value("TIME", "700ms"))
	if err = errors.Join(err, failed); err != nil {
		b.Fatal(err)
	}
	return g
}

// BenchmarkLimitAccuracy measures the flows of one cgroup between two namespaces joined by a veth
// pair: their total goodput in percent of the limit's maximum, with the 95 % interval over
// WEIR_LIMIT_REPEAT repetitions. Jain's index is their fairness, and %stolen the share of CPU time
// taken by other machines.
func BenchmarkLimitAccuracy(b *testing.B) {
	g := readLimitGrid(b)
	g.each(b, g.measure)
}

// each runs a benchmark of every cell.
func (g limitGrid) each(b *testing.B, measure func(b *testing.B, load string, rate units.BitRate, flows int)) {
	for _, load := range g.loads {
		for _, rate := range g.rates {
			for _, flows := range g.flows {
				b.Run(fmt.Sprintf("%s/%s/%d", load, strings.ReplaceAll(rate.String(), " ", ""), flows), func(b *testing.B) {
					measure(b, load, rate, flows)
				})
			}
		}
	}
}

func (g limitGrid) measure(b *testing.B, load string, rate units.BitRate, flows int) {
	cell := newLimitCell(b, load)
	var share, even []float64
	var done limitDone
	var users limitUsers
	lost := stolen(b)
	for range b.N * g.repeat {
		octets, counted, seen := cell.run(b, rate, flows, g.warm, g.time)
		share = append(share, cell.percent(octets, rate, g.time))
		even = append(even, stats.Jain(octets))
		users.add(seen)
		done.add(counted, g.time.Seconds()*float64(rate)/8)
	}
	estimate := stats.Of(share)
	b.ReportMetric(estimate.Mean, "%of-limit")
	if low, high, ok := estimate.Interval(); ok {
		b.ReportMetric(low, "%low")
		b.ReportMetric(high, "%high")
	}
	b.ReportMetric(stats.Of(even).Mean, "jain")
	done.report(b)
	users.report(b, "")
	b.ReportMetric(lost(), "%stolen")
	b.ReportMetric(0, "ns/op")
}

// limitDone sums the actions of a limit during the measurement.
type limitDone struct {
	sum                police.Counters
	offered, permitted float64 // packets; octets
}

func (d *limitDone) add(c police.Counters, permitted float64) {
	d.permitted += permitted
	d.offered += float64(c.Packets + c.Dropped)
	d.sum.Bytes += c.Bytes
	d.sum.Marked += c.Marked
	d.sum.Reduced += c.Reduced
	d.sum.Dropped += c.Dropped
	d.sum.Forced += c.Forced
}

// report reports the passed bytes in percent of the limit, and the treated packets in percent of
// the offered ones.
func (d *limitDone) report(b *testing.B) {
	b.ReportMetric(100*float64(d.sum.Bytes)/d.permitted, "%passed")
	for unit, n := range map[string]uint64{"%marked": d.sum.Marked, "%reduced": d.sum.Reduced, "%dropped": d.sum.Dropped, "%forced": d.sum.Forced} {
		b.ReportMetric(100*float64(n)/max(1, d.offered), unit)
	}
}

// run applies a limit to the path and returns each flow's bytes in the measured time, the limit's
// actions, and the users' view.
func (c limitCell) run(b *testing.B, rate units.BitRate, flows int, warm, measured time.Duration) ([]float64, police.Counters, limitSeen) {
	b.Helper()
	begin := rate
	if c.first > 0 {
		begin = rate * c.first / 100
	}
	process, counters, held := c.limited(b, begin)
	defer held.remove()
	defer func() { _ = process.Stop(5 * time.Second) }()
	from := limitLoad{Namespace: c.from.Namespace.Name, Network: c.network, Flows: flows, Congestion: c.congestion, Rate: rate * 3 / 2,
		Pace: c.pace(rate, flows), Each: c.each, Beside: c.beside}
	if c.flooded {
		from.Rate, from.Until = rate*3, warm/2
	}
	to := limitLoad{Receive: true, Namespace: c.to.Namespace.Name, Network: c.network, Congestion: c.congestion,
		Address: netip.AddrPortFrom(c.to.Address, 0).String(), Beside: c.beside}
	ask, answers := json.NewEncoder(process.In), json.NewDecoder(process.Out)
	exchange := func(question, answer any) {
		b.Helper()
		if err := errors.Join(ask.Encode(question), answers.Decode(answer)); err != nil {
			b.Fatal(err)
		}
	}
	var counts func() []float64
	var turn func() limitSeen
	if c.direction == direction.Egress {
		sink, err := to.listen()
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = sink.Close() }()
		from.Address, counts = sink.address, sink.counts
		var ready string
		exchange(from, &ready)
		turn = func() (seen limitSeen) {
			exchange("turn", &seen)
			return seen
		}
	} else {
		exchange(to, &from.Address)
		counts = func() (octets []float64) {
			exchange("count", &octets)
			return octets
		}
		sender, err := from.send()
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = sender.Close() }()
		turn = sender.turn
	}
	time.Sleep(warm / 2)
	if begin != rate {
		held.change(rate)
	}
	time.Sleep(warm / 2)
	turn()
	earlier, host := counters(), c.hosts(b)
	before, began := counts(), time.Now()
	time.Sleep(measured)
	after, elapsed := counts(), time.Since(began)
	counted, used := counters(), c.hosts(b).since(host)
	seen := turn()
	seen.Hosts = used
	for i := range after {
		if i < len(before) {
			after[i] -= before[i]
		}
		seen.Octets += after[i]
		after[i] *= measured.Seconds() / elapsed.Seconds()
	}
	return after, counted.Since(earlier), seen
}

// limitHeld is a path under a limit.
type limitHeld struct {
	change func(units.BitRate) // changes the rate
	remove func()
}

// limited starts a process in a limited cgroup, or limits a device, and returns a reader of the
// limit's counters. All ends with the benchmark.
func (c limitCell) limited(b *testing.B, rate units.BitRate) (process *child.Process, counters func() police.Counters, held limitHeld) {
	b.Helper()
	none := func() police.Counters { return police.Counters{} }
	if c.holder != limitWeir {
		held := c.hold(b, rate)
		process, err := child.Start(context.Background(), limitLoadPart, os.Stderr)
		must(b, err)
		return process, none, held
	}
	group := testutil.Cgroup(b)
	plane, err := police.Load(1)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = plane.Close() })
	id, err := group.ID()
	if err != nil {
		b.Fatal(err)
	}
	change := func(rate units.BitRate) { must(b, plane.Set(0, c.direction, police.Limit{Rate: rate})) }
	change(rate)
	must(b, errors.Join(plane.AssignCgroup(id, 0), plane.Attach(group.Path)))
	process, err = child.Start(context.Background(), limitLoadPart, os.Stderr)
	if err != nil {
		b.Fatal(err)
	}
	if err := group.Add(process.PID()); err != nil {
		b.Fatal(err)
	}
	return process, func() police.Counters {
		counted, err := plane.Counters(0, c.direction)
		must(b, err)
		return counted
	}, limitHeld{change, func() {}}
}

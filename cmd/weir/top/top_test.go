// SPDX-License-Identifier: Apache-2.0

package top

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/cmd/weir/cli"
	"weir/core/engine"
	"weir/core/module"
	"weir/core/policy"
	"weir/internal/fault"
	"weir/internal/units"
)

// readings returns a source that returns all in sequence, one second apart, and then repeats the
// last.
func readings(all ...engine.Status) topSource {
	began, next := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), 0
	return func() (engine.Status, time.Time, error) {
		status := all[min(next, len(all)-1)]
		next++
		return status, began.Add(time.Duration(next) * time.Second), nil
	}
}

// columns are similar to those of the limit module.
var columns = []module.Column{
	{Name: "limit", Title: "limit", NoStatus: true, Unit: module.BitPerSecond, Kind: module.Gauge},
	{Name: "bytes", Title: "admitted", Of: "limit", Unit: module.Octets, Kind: module.Counter},
	{Name: "queue", Title: "queue", NoStatus: true, Unit: module.Seconds, Kind: module.Gauge},
	{Name: "round_trip_time", Title: "RTT", NoStatus: true, Unit: module.Seconds, Kind: module.Histogram},
	{Name: "marked", Title: "marked", Unit: module.Packets, Kind: module.Counter},
	{Name: "dropped", Title: "dropped", Alarm: true, Unit: module.Packets, Kind: module.Counter},
	{Name: "hidden", Unit: module.Packets, Kind: module.Counter},
}

// busy returns a status with these counter values.
func busy(octets, marked uint64) engine.Status {
	status := engine.Status{Enforced: true, Modules: []engine.ModuleStatus{{Module: "limit", Enforced: true, Part: "direction", Heading: "rate", Columns: columns}}}
	add := func(name, kind, words, state, part, promise string, values engine.Values) {
		status.Scopes = append(status.Scopes, engine.ScopeStatus{State: state, Scope: policy.Scope{Name: name, Selector: policy.Selector{Kind: kind, Words: words}}})
		status.Modules[0].Rows = append(status.Modules[0].Rows, engine.RowStatus{Scope: name, Part: part, Promise: promise, Values: values})
	}
	values := func(octets, marked, refused uint64, rtt [32]uint64) engine.Values {
		return engine.Values{"limit": module.Measured(10e6), "bytes": module.Counted(octets), "queue": module.Measured(0.0015), "marked": module.Counted(marked),
			"dropped": module.Counted(refused), "hidden": module.Counted(octets), "round_trip_time": module.HistogramValue(module.Buckets{Counts: rtt})}
	}
	add("slow", "prefix", "remote prefix 10.0.0.0/8", "enforced", "egress", "10 Mbit/s", values(octets/10, 0, 0, [32]uint64{}))
	add("busy", "prefix", "remote prefix 10.0.0.0/8", "enforced", "egress", "10 Mbit/s", values(octets, marked, 3*marked, [32]uint64{4: 99 * marked, 9: marked}))
	add("w", "cgroup", "cgroup /w", "waiting: there is no cgroup /w", "ingress", "5 Mbit/s", nil)
	return status
}

func TestTopRowsAreRatesSortedByShare(t *testing.T) {
	rows := topModules(busy(1000, 5), busy(1000+2_000_000, 25), 2*time.Second)[0].Rows
	number := func(x float64) topValue { return topValue{Number: x} }
	rtt, none := 32e-6, 0.0
	want := []topRow{
		{Scope: "busy", Applies: "remote prefix 10.0.0.0/8", Part: "egress", State: "enforced", Share: 0.8, Values: map[string]topValue{
			"limit": number(10e6), "bytes": number(1e6), "queue": number(0.0015), "marked": number(10), "dropped": number(30), "hidden": number(1e6),
			"round_trip_time": {P50: &rtt, P99: &rtt}}},
		{Scope: "slow", Applies: "remote prefix 10.0.0.0/8", Part: "egress", State: "enforced", Share: 0.08, Values: map[string]topValue{
			"limit": number(10e6), "bytes": number(1e5), "queue": number(0.0015), "marked": number(0), "dropped": number(0), "hidden": number(1e5),
			"round_trip_time": {P50: &none, P99: &none}}},
		{Scope: "w", Applies: "cgroup /w", Part: "ingress", State: "waiting: there is no cgroup /w", Values: map[string]topValue{}},
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("rows differ (-want +got):\n%s", diff)
	}
	// After a release and an apply the counters start at zero.
	again := topModules(busy(9000, 5), busy(1000, 0), time.Second)[0].Rows[0]
	if again.Values["bytes"].Number != 1000 || again.Values["marked"].Number != 0 {
		t.Errorf("after the counters went back: %+v", again)
	}
}

func TestTopPrintsOneSnapshotWithoutATerminal(t *testing.T) {
	over := make(chan time.Time, 2)
	over <- time.Time{}
	over <- time.Time{}
	var out strings.Builder
	a := &cli.App{Stdout: &out, Format: "text"}
	if err := once(t.Context(), a, readings(busy(0, 0), busy(1e6, 7)), over); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"scope", "dropped/s", "8.00 Mbit/s", "80.0 %", "1.50 ms", "0.032/0.032 ms", "waiting: there is no cgroup /w"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the snapshot lacks %q:\n%s", want, out.String())
		}
	}
	out.Reset()
	a.Format = "json"
	if err := once(t.Context(), a, readings(busy(0, 0), busy(1e6, 7)), over); err != nil {
		t.Fatal(err)
	}
	var document topDocument
	if err := json.Unmarshal([]byte(out.String()), &document); err != nil {
		t.Fatal(err)
	}
	if document.Format != "weir-top/3" || document.Interval != 1 || len(document.Modules[0].Rows) != 3 || document.Modules[0].Rows[0].Values["bytes"].Number != 1e6 {
		t.Errorf("document %+v", document)
	}
}

func TestFiguresOfTopKeepTheirWidth(t *testing.T) {
	for rate, want := range map[units.BitRate]string{0: "0 bit/s", 999: "999 bit/s", 1000: "1.00 kbit/s", 9_994_999: "9.99 Mbit/s", 99_900_000: "99.9 Mbit/s",
		999_499_999: "999 Mbit/s", 999_500_000: "1.00 Gbit/s", 400e9: "400 Gbit/s"} {
		if got := rate.Short(); got != want {
			t.Errorf("%d bit/s is printed as %q, want %q", rate, got, want)
		}
	}
	for share, want := range map[float64]string{0: "    ", 0.5: "██  ", 0.28: "█▏  ", 1: "████", 7: "████", -1: "    "} {
		if got := bar(share, 4); got != want {
			t.Errorf("a bar of %g is %q, want %q", share, got, want)
		}
	}
}

func TestIntervalHasBounds(t *testing.T) {
	status, _, stderr := commands.Call(t, "top", "--interval", "1ms")
	if want := "--interval 1ms is outside"; status != fault.Usage || !strings.Contains(stderr, want) {
		t.Errorf("status %d, %q, want %q", status, stderr, want)
	}
}

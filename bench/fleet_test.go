// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"weir/kernel/testutil"
	"weir/modules/fleet/fleettest"
)

const (
	fleetHosts   = 4
	fleetStreams = 8
	fleetRate    = 80e6 // bit/s
)

// BenchmarkFleet loads a limit of four hosts with eight TCP connections each, in starts that
// alternate between a shared limit and a static split: each host has a quarter. It reports the used
// share of the limit from 2 to 8 s after the start, the smallest host's share of a quarter, and
// Jain's index. The median, minimum and maximum are over the starts.
func BenchmarkFleet(b *testing.B) {
	testutil.Command(b, "iperf3")
	binary := filepath.Join(b.TempDir(), "weir")
	if text, err := exec.Command("go", "build", "-trimpath", "-o", binary, "weir/cmd/weir").CombinedOutput(); err != nil {
		b.Fatalf("%s", text)
	}
	l := fleettest.New(b, binary, fleetHosts)
	l.Serve()
	l.Limit(fmt.Sprintf("%dMbit", int(fleetRate/1e6)))
	l.Enroll()
	modes := []string{"shared", "static"}
	const starts = 2
	all := map[string][]fleetUse{}
	for range starts {
		for _, mode := range modes {
			limitFleet(l, mode)
			all[mode] = append(all[mode], loadFleet(l))
			for _, h := range l.Hosts {
				h.Kill()
			}
		}
	}
	for _, mode := range modes {
		b.Run(mode, func(b *testing.B) {
			for i, name := range []string{"used", "smallest", "jain"} {
				var values []float64
				for _, u := range all[mode] {
					values = append(values, u[i])
				}
				slices.Sort(values)
				b.ReportMetric(values[len(values)/2], name)
				b.ReportMetric(values[0], name+"-min")
				b.ReportMetric(values[len(values)-1], name+"-max")
			}
		})
	}
}

// limitFleet starts the daemons of all hosts with a shared limit or a static split.
func limitFleet(l *fleettest.Lab, mode string) {
	const part = fleetRate / fleetHosts
	for _, h := range l.Hosts {
		if mode == "shared" {
			h.Follow(", min: 1Mbit")
		} else {
			h.Daemon(fmt.Sprintf("version: 1\nscopes: {job: {cgroup: /job, egress: {rate: %dMbit, mode: police}}}\n", int(part/1e6)))
		}
	}
	for _, h := range l.Hosts {
		if mode == "shared" {
			h.Enforces(`"shared": {`)
		} else {
			h.Enforces(fmt.Sprintf(`"rate": %d`, int(part)))
		}
	}
	if mode == "shared" {
		l.Joined()
	}
}

// fleetUse holds the used share of the limit, the smallest host's share of an equal part, and
// Jain's index of the hosts.
type fleetUse [3]float64

func loadFleet(l *fleettest.Lab) fleetUse {
	for _, h := range l.Hosts {
		defer h.Send(fleetStreams)()
	}
	time.Sleep(2 * time.Second)
	var before [fleetHosts]uint64
	begin, arrived := time.Now(), l.Arrived()
	for i, h := range l.Hosts {
		before[i] = h.Sent()
	}
	time.Sleep(6 * time.Second)
	seconds := time.Since(begin).Seconds()
	use := fleetUse{float64(l.Arrived()-arrived) * 8 / seconds / fleetRate, 2, 0}
	var sum, squares float64
	for i, h := range l.Hosts {
		part := float64(h.Sent()-before[i]) * 8 / seconds / (fleetRate / fleetHosts)
		use[1] = min(use[1], part)
		sum, squares = sum+part, squares+part*part
	}
	if squares > 0 {
		use[2] = sum * sum / (fleetHosts * squares)
	}
	return use
}

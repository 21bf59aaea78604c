// SPDX-License-Identifier: Apache-2.0

package traffic_test

import (
	"strings"
	"testing"
	"time"

	"weir/internal/fault"
	"weir/lab/traffic"
	"weir/lab/traffic/workload"
)

func TestValidate(t *testing.T) {
	load := func(perSecond float64, drain time.Duration) *workload.Load {
		return &workload.Load{Sizes: workload.Fixed(1000), PerSecond: perSecond, Drain: drain}
	}
	good := map[traffic.Kind]traffic.Flow{
		traffic.Transfers: {Name: "f", Kind: traffic.Transfers, Streams: 1, Duration: time.Second, Load: load(10, 0)},
		traffic.Bulk:      {Name: "f", Kind: traffic.Bulk, Streams: 1, Duration: time.Second},
		traffic.Request:   {Name: "f", Kind: traffic.Request, Streams: 1, Duration: time.Second, Request: 1, Response: 1, Concurrency: 1},
		traffic.Datagram:  {Name: "f", Kind: traffic.Datagram, Streams: 1, Duration: time.Second, Rate: 1000, Payload: 100},
		traffic.Program:   {Name: "f", Kind: traffic.Program, Streams: 1, Duration: time.Second, Command: &traffic.Command{Run: "true"}},
	}
	for kind, f := range good {
		if err := f.Validate(); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	for _, c := range []struct {
		kind  traffic.Kind
		spoil func(*traffic.Flow)
		want  string
	}{
		{traffic.Bulk, func(f *traffic.Flow) { f.Streams = 0 }, "streams"},
		{traffic.Bulk, func(f *traffic.Flow) { f.DSCP = 64 }, "DSCP"},
		{traffic.Bulk, func(f *traffic.Flow) { f.Family = 5 }, "versions 4 and 6"},
		{traffic.Datagram, func(f *traffic.Flow) { f.Family, f.Payload = 6, 65488 }, "between 24 and 65487"},
		{traffic.Bulk, func(f *traffic.Flow) { f.Duration = 0 }, "duration"},
		{traffic.Bulk, func(f *traffic.Flow) { f.Start = -1 }, "negative"},
		{traffic.Bulk, func(f *traffic.Flow) { f.Kind = "ftp" }, "bulk, request, transfers, udp or command"},
		{traffic.Program, func(f *traffic.Flow) { f.Command = nil }, "no command"},
		{traffic.Request, func(f *traffic.Flow) { f.Request = 0 }, "octet"},
		{traffic.Request, func(f *traffic.Flow) { f.Concurrency = 0 }, "concurrency"},
		{traffic.Transfers, func(f *traffic.Flow) { f.Load = nil }, "distribution of sizes"},
		{traffic.Transfers, func(f *traffic.Flow) { f.Load = load(0, 0) }, "no transfer ever begins"},
		{traffic.Transfers, func(f *traffic.Flow) { f.Load = load(1, time.Second) }, "none begins in its last 1s"},
		{traffic.Transfers, func(f *traffic.Flow) { f.Load = load(30_000, 0) }, "at most 20000"},
		{traffic.Transfers, func(f *traffic.Flow) { f.Streams = 2 }, "raise their rate"},
		{traffic.Datagram, func(f *traffic.Flow) { f.Rate = 0 }, "rate"},
		{traffic.Datagram, func(f *traffic.Flow) { f.Payload = 23 }, "between 24 and"},
		{traffic.Datagram, func(f *traffic.Flow) { f.Payload = 65508 }, "between 24 and"},
		{traffic.Datagram, func(f *traffic.Flow) { f.Congestion = "bbr" }, "congestion"},
		{traffic.Datagram, func(f *traffic.Flow) { f.Streams = 2000 }, "per stream"},
	} {
		f := good[c.kind]
		c.spoil(&f)
		err := f.Validate()
		if fault.Of(err) != fault.Usage || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "flow f: ") {
			t.Errorf("%+v: %v, want %q", f, err, c.want)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package traffic_test

import (
	"strings"
	"testing"
	"time"

	"weir/internal/fault"
	"weir/lab/traffic"
)

func TestValidate(t *testing.T) {
	good := map[traffic.Kind]traffic.Flow{
		traffic.Bulk:     {Name: "f", Kind: traffic.Bulk, Streams: 1, Duration: time.Second},
		traffic.Request:  {Name: "f", Kind: traffic.Request, Streams: 1, Duration: time.Second, Request: 1, Response: 1, Concurrency: 1},
		traffic.Datagram: {Name: "f", Kind: traffic.Datagram, Streams: 1, Duration: time.Second, Rate: 1000, Payload: 100},
		traffic.Program:  {Name: "f", Kind: traffic.Program, Streams: 1, Duration: time.Second, Command: &traffic.Command{Run: "true"}},
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
		{traffic.Bulk, func(f *traffic.Flow) { f.Kind = "ftp" }, "bulk, request, udp or command"},
		{traffic.Program, func(f *traffic.Flow) { f.Command = nil }, "no command"},
		{traffic.Request, func(f *traffic.Flow) { f.Request = 0 }, "octet"},
		{traffic.Request, func(f *traffic.Flow) { f.Concurrency = 0 }, "concurrency"},
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

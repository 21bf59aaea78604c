// SPDX-License-Identifier: Apache-2.0

package native

import "testing"

func TestSendersTellTheirCongestionControlAndTime(t *testing.T) {
	p := newPath(t)
	f := bulk(2)
	f.Congestion = "reno"
	r := p.run(t, 4, f)
	if r.Congestion != "reno" {
		t.Errorf("the senders' congestion control is %q", r.Congestion)
	}
	for i, s := range r.Streams {
		if s.Busy <= 0 || s.WindowLimited > s.Busy {
			t.Errorf("stream %d was busy for %s, limited by a window for %s of it", i, s.Busy, s.WindowLimited)
		}
	}
	if r := p.run(t, 4, bulk(1)); r.Congestion == "" {
		t.Error("the kernel's default has no name")
	}
}

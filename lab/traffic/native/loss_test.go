// SPDX-License-Identifier: Apache-2.0

package native

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"weir/kernel/tcpinfo"
	"weir/kernel/testutil"
	"weir/lab/traffic"
)

// TestLossEventsAreTheKernels overflows a short queue and compares with iproute2's nstat.
func TestLossEventsAreTheKernels(t *testing.T) {
	tc, nstat := testutil.Command(t, "tc"), testutil.Command(t, "nstat")
	p := newPath(t)
	ns := p.from[4].Namespace
	if text, err := inside(ns, tc, "qdisc", "add", "dev", "a", "root", "tbf", "rate", "40mbit", "burst", "5kb", "limit", "15kb"); err != nil {
		testutil.Need(t, "sch_tbf", fmt.Errorf("%w: %s", err, text))
	}
	f := bulk(2)
	f.Congestion, f.Duration = "reno", time.Second
	r := p.run(t, 4, f)
	var oracle struct {
		Kernel map[string]uint64
	}
	text, err := inside(ns, nstat, "-asj")
	must(t, err)
	must(t, json.Unmarshal([]byte(text), &oracle))
	var events, retransmits uint64
	for _, s := range r.Streams {
		events += s.LossEvents
		retransmits += s.Retransmits
	}
	recoveries := oracle.Kernel["TcpExtTCPSackRecovery"] + oracle.Kernel["TcpExtTCPRenoRecovery"]
	if !r.LossEventsExact || retransmits == 0 || recoveries == 0 || retransmits > oracle.Kernel["TcpRetransSegs"] {
		t.Fatalf("exact %v, %d retransmits, %d recoveries, nstat has %v", r.LossEventsExact, retransmits, recoveries, oracle.Kernel)
	}
	// Timeouts come on top of recoveries; nstat counts the repeated ones too.
	if events < recoveries || events > recoveries+oracle.Kernel["TcpExtTCPTimeouts"] {
		t.Errorf("%d loss events, nstat has %d recoveries and %d timeouts", events, recoveries, oracle.Kernel["TcpExtTCPTimeouts"])
	}
}

func TestTallyCountsRecoveriesFromSamples(t *testing.T) {
	var y tally
	for i, step := range []struct {
		state       uint8
		retransmits uint32
		timeouts    uint16
		want        uint64
	}{
		{tcpinfo.Open, 0, 0, 0},
		{tcpinfo.Recovery, 1, 0, 1}, // entered
		{tcpinfo.Recovery, 5, 0, 1}, // still the same one
		{tcpinfo.Open, 5, 0, 1},
		{tcpinfo.Open, 7, 0, 2}, // began and ended between two samples
		{tcpinfo.Loss, 8, 1, 2}, // a timeout is not a recovery
		{tcpinfo.Open, 9, 1, 2}, // nor is its repair
		{tcpinfo.Open, 10, 2, 2},
		{tcpinfo.Disorder, 10, 2, 2},
	} {
		var info tcpinfo.Info
		info.Ca_state, info.Total_retrans, info.Total_rto_recoveries = step.state, step.retransmits, step.timeouts
		y.observe(info)
		if y.recoveries != step.want {
			t.Errorf("step %d: %d recoveries, want %d", i, y.recoveries, step.want)
		}
	}
	if y.timeouts() != 2 {
		t.Errorf("%d timeouts", y.timeouts())
	}
}

func TestSendersNoticeEachOther(t *testing.T) {
	var s senders
	first := s.enter(1)
	other := s.enter(2)
	if !s.leave(2, other) {
		t.Error("a sender in another namespace disturbs")
	}
	second := s.enter(1)
	if s.leave(1, first) || s.leave(1, second) {
		t.Error("two senders at once are not noticed")
	}
	if third := s.enter(1); !s.leave(1, third) {
		t.Error("a sender that has gone disturbs")
	}
	if len(s.active) != 0 {
		t.Errorf("left behind: %v", s.active)
	}
}

func TestApportionAddsUp(t *testing.T) {
	random := testutil.Rand(t)
	for range 1000 {
		streams := make([]traffic.Stream, 1+random.IntN(5))
		timeouts := make([]uint64, len(streams))
		want := uint64(random.IntN(1000))
		recoveries := want
		for i := range streams {
			streams[i].Retransmits = uint64(random.IntN(3) * random.IntN(1000))
			timeouts[i] = uint64(random.IntN(3))
			want += timeouts[i]
		}
		apportion(streams, recoveries, timeouts)
		var got uint64
		for _, s := range streams {
			got += s.LossEvents
		}
		if got != want {
			t.Fatalf("%d events become %d over %v", want, got, streams)
		}
	}
}

func FuzzRecoveries(f *testing.F) {
	f.Add([]byte("TcpExt: SyncookiesSent TCPRenoRecovery TCPSackRecovery\nTcpExt: 0 3 4\nIpExt: InNoRoutes\nIpExt: 1\n"))
	f.Add([]byte("TcpExt: TCPRenoRecovery TCPSackRecovery\nTcpExt: 0\n"))
	f.Add([]byte("TcpExt:\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if sum, err := parseRecoveries(text); err != nil && sum != 0 {
			t.Errorf("%d with the error %v", sum, err)
		}
	})
}

func TestParseRecoveries(t *testing.T) {
	text := "IpExt: A\nIpExt: 1\nTcpExt: SyncookiesSent TCPRenoRecovery X TCPSackRecovery\nTcpExt: 9 3 8 4\n"
	if sum, err := parseRecoveries([]byte(text)); err != nil || sum != 7 {
		t.Errorf("%d, %v: want 3 + 4", sum, err)
	}
	for _, broken := range []string{"", "TcpExt: A\n", "TcpExt: A\nTcpExt: 1\n", "TcpExt: TCPRenoRecovery TCPSackRecovery\nTcpExt: 1 x\n"} {
		if _, err := parseRecoveries([]byte(broken)); err == nil {
			t.Errorf("%q is read without an error", broken)
		}
	}
}

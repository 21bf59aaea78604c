// SPDX-License-Identifier: Apache-2.0

package station

import (
	"testing"
	"time"

	"weir/internal/wait"
)

func TestProbesComeBack(t *testing.T) {
	server := serve(t, "127.0.0.1:0", "secret")
	pair, err := Connect(t.Context(), Peer{Control: server.Addr(), Target: server.Addr(), Token: "secret"}, Place{},
		Flow{Protocol: Probe, Connections: 1, Rate: 100 * 8 * ProbePayload})
	if err != nil {
		t.Fatal(err)
	}
	defer pair.Close()
	before, err := Monotonic()
	if err == nil {
		err = pair.Start()
	}
	if err == nil {
		err = wait.For(t.Context(), 100*time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	echoes, err := pair.Probed(t.Context())
	if err != nil || len(echoes) == 0 {
		t.Fatalf("%d probes, %v", len(echoes), err)
	}
	for i, e := range echoes {
		if e.RTT == 0 || e.At < before || i > 0 && e.At < echoes[i-1].At {
			t.Errorf("probe %d: %+v, sent after %v", i, e, before)
		}
	}
}

// A duplicate or unknown answer changes nothing, and a rejected probe counts as lost.
func TestProbesAreMatchedByNumber(t *testing.T) {
	p := probes{}
	var last []byte
	keep := func(b []byte) error { last = b; return nil }
	for range 2 {
		if err := p.one(keep); err != nil {
			t.Fatal(err)
		}
	}
	p.back(last)
	first := p.all()[1]
	p.back(last)
	p.back(last[:8])
	foreign := make([]byte, ProbePayload)
	foreign[0] = 1
	p.back(foreign)
	if all := p.all(); first.RTT == 0 || all[1] != first || all[0].RTT != 0 || !p.waiting() {
		t.Errorf("%+v, and before %+v", all, first)
	}
}

// Both kinds work in both directions, and over loopback all losses are counted by the receiver.
func TestUsersFlowsGoEitherWay(t *testing.T) {
	for _, f := range []Flow{{Protocol: QUIC, Connections: 1}, {Protocol: Short, Connections: 1, Size: 100_000}} {
		for _, f.Reverse = range []bool{false, true} {
			server := serve(t, "127.0.0.1:0", "secret")
			pair, err := Connect(t.Context(), Peer{Control: server.Addr(), Target: server.Addr(), Token: "secret"}, Place{}, f)
			if err != nil {
				t.Fatal(err)
			}
			got, err := pair.Measure(t.Context(), 10*time.Millisecond, 100*time.Millisecond, func() error { return nil })
			pair.Close()
			switch {
			case err != nil:
				t.Errorf("%+v: %v", f, err)
			case f.Protocol == Short && (len(got.Transfers) == 0 || got.Transfers[0].RTT <= 0):
				t.Errorf("%+v: %d transfers", f, len(got.Transfers))
			case f.Protocol == QUIC && (got.All.Octets == 0 || got.Left < got.All.Octets || got.Left%Payload != 0):
				t.Errorf("%+v: %+v", f, got)
			}
		}
	}
}

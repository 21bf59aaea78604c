// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/direction"
	"weir/internal/fault"
)

// withLimits is three hosts with these limits in line 5; two hosts send to the third.
func withLimits(limits string) string {
	return "version: 1\ntitle: t\nhosts: [a, b, c]\nrouters: [gate]\nlimits: [" + limits + "]\n" +
		"links: [{ends: [a, gate], plain: true}, {ends: [b, gate], plain: true}, {ends: [gate, c], plain: true}, {ends: [c, a], plain: true}]\n" +
		"phases: [{duration: 1s, flows: [{name: one, kind: bulk, from: b, to: c}, {name: two, kind: request, from: c, to: b}, {name: three, kind: bulk, from: a, to: c}]}]\n"
}

func TestLimits(t *testing.T) {
	s, err := Parse("f.yaml", []byte(withLimits("{name: out, host: b, mechanism: police, rate: 1Mbit, mark: 1ms, drop: 5ms, burst: 2ms, flows: [one]}, "+
		"{name: in, host: b, direction: ingress, mechanism: classic, rate: 2Mbit, flows: [one]}, {name: queue, host: a, mechanism: none, rate: 3Mbit}")))
	if err != nil {
		t.Fatal(err)
	}
	cells, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	out, in := cells[0].Limits[0], cells[0].Limits[1]
	if out.Rate != 1e6 || out.Mark != time.Millisecond || out.Drop != 5*time.Millisecond || out.Burst != 2*time.Millisecond || out.Direction != direction.Egress {
		t.Errorf("the first limit: %+v", out)
	}
	if in.Direction != direction.Ingress || in.Mechanism != Classic || in.Mark != 0 || len(cells[0].Limits) != 3 {
		t.Errorf("the others: %+v", cells[0].Limits)
	}
	flows := cells[0].Phases[0].Flows
	for _, c := range []struct {
		limit Limit
		flow  int
		want  bool
	}{
		{Limit{Host: "b"}, 0, true},                                // b sends
		{Limit{Host: "b", Direction: direction.Ingress}, 0, false}, // b receives acknowledgements only
		{Limit{Host: "b"}, 1, true},                                // responses are longer than requests
		{Limit{Host: "c", Direction: direction.Ingress}, 1, true},  // the same at the receiver
		{Limit{Host: "b", Flows: []string{"two"}}, 0, false},       // another flow
		{Limit{Host: "c", Flows: []string{"three"}}, 2, false},     // c receives
	} {
		if got := c.limit.On(flows[c.flow]); got != c.want {
			t.Errorf("limit %+v on flow %s: %t", c.limit, flows[c.flow].Name, got)
		}
	}
}

// A limit at a router's device applies to packets that leave by it.
func TestLimitsAtDevices(t *testing.T) {
	for _, c := range []struct {
		limit string
		want  []string
	}{
		{"{name: x, host: gate, link: gate-c, mechanism: shape, rate: 1Mbit}", []string{"one", "two"}}, // a has a link of its own to c
		{"{name: x, host: gate, link: gate-c, direction: ingress, mechanism: shape, rate: 1Mbit}", nil},
		{"{name: x, host: gate, link: b-gate, direction: ingress, mechanism: shape, rate: 1Mbit}", []string{"one", "two"}},
		{"{name: x, host: gate, link: b-gate, mechanism: htb, rate: 1Mbit}", nil},
		{"{name: x, host: a, link: c-a, mechanism: shape, rate: 1Mbit}", []string{"three"}},
		{"{name: x, host: b, mechanism: shape, rate: 1Mbit}", []string{"one", "two"}}, // responses are longer than requests
	} {
		s, err := Parse("f.yaml", []byte(withLimits(c.limit)))
		if err != nil {
			t.Error(err)
			continue
		}
		cells, err := s.Expand()
		if err != nil {
			t.Fatal(err)
		}
		l, got := cells[0].Limits[0], []string(nil)
		for _, f := range cells[0].Phases[0].Flows {
			if l.On(f) {
				got = append(got, f.Name)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s is on %q, want %q", c.limit, got, c.want)
		}
	}
}

func TestLimitMistakes(t *testing.T) {
	for _, c := range []struct{ name, limits, want string }{
		{"unknown host", "{name: x, host: d, mechanism: police, rate: 1Mbit}", `limits[0].host: there is no host or router "d"`},
		{"router", "{name: x, host: gate, mechanism: police, rate: 1Mbit}", "limits[0].host: gate is a router"},
		{"no rate", "{name: x, host: a, mechanism: police, rate: 0}", "limits[0].rate: 0"},
		{"unknown mechanism", "{name: x, host: a, mechanism: plice, rate: 1Mbit}", `did you mean "police"?`},
		{"former mechanism", "{name: x, host: a, mechanism: delay, rate: 1Mbit}", "limits[0].mechanism: renamed: write mechanism: shape"},
		{"former police", "{name: x, host: a, mechanism: weir, rate: 1Mbit}", "limits[0].mechanism: renamed: write mechanism: police"},
		{"no name", "{name: x y, host: a, mechanism: police, rate: 1Mbit}", `limits[0].name: "x y" is no name`},
		{"queue of ingress", "{name: x, host: b, direction: ingress, mechanism: htb, rate: 1Mbit}", "limits[0].mechanism: htb is a queue at egress"},
		{"queue of flows", "{name: x, host: b, mechanism: htb, rate: 1Mbit, flows: [one]}", "limits[0].flows: htb limits all packets of a device"},
		{"delay of two devices", "{name: x, host: gate, mechanism: shape, rate: 1Mbit}", "limits[0].host: gate has 3 links"},
		{"unknown link", "{name: x, host: gate, link: far, mechanism: shape, rate: 1Mbit}", `limits[0].link: gate has no link "far"`},
		{"link of sockets", "{name: x, host: b, link: b-gate, mechanism: police, rate: 1Mbit}", "limits[0].link: police limits sockets"},
		{"queue of two devices", "{name: x, host: a, mechanism: htb-fq_codel, rate: 1Mbit}", "limits[0].host: a has 2 links"},
		{"unknown flow", "{name: x, host: b, mechanism: police, rate: 1Mbit, flows: [three]}", `limits[0].flows: host b has no flow "three"`},
		{"thresholds", "{name: x, host: b, mechanism: police, rate: 1Mbit, mark: 5ms, drop: 5ms}", "limits[0].mark: 5ms is not below drop"},
		{"same name", "{name: x, host: b, mechanism: police, rate: 1Mbit}, {name: x, host: a, mechanism: police, rate: 1Mbit}", `limits[1]: there is a limit "x" already`},
		{"same traffic", "{name: x, host: b, mechanism: police, rate: 1Mbit}, {name: y, host: b, mechanism: police, rate: 1Mbit, flows: [one]}",
			`limits[1]: limit "x" is on the same traffic of b`},
		{"half of the traffic", "{name: x, host: b, mechanism: police, rate: 1Mbit}, {name: y, host: b, direction: ingress, mechanism: police, rate: 1Mbit, flows: [one]}",
			`limits[1].flows: limit "x" is on some of these flows`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("f.yaml", []byte(withLimits(c.limits)))
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "f.yaml:5:") {
				t.Fatalf("got %v\nwant %s in line 5", err, c.want)
			}
			if fault.Of(err) != fault.Usage || fault.Advice(err) == "" {
				t.Errorf("status %d with advice %q", fault.Of(err), fault.Advice(err))
			}
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package run

import (
	"slices"
	"testing"
	"time"

	"weir/lab/scenario"
	"weir/tester"
)

// Equal streams have identifiers and ports of their own, send in rotation, and reach the requested
// rate together.
func TestAlikeStreamsShareARate(t *testing.T) {
	s, err := scenario.Parse("f.yaml", []byte(`version: 1
title: t
hosts: [a, b]
links: [{ends: [a, b], plain: true}]
phases:
  - duration: 2s
    streams:
      - {name: one, from: a, to: b, rate: 10}
      - {name: many, from: a, to: b, rate: 100, count: 7, dscp: le, start: 1s}
      - {name: last, from: b, to: a, rate: 10}
`))
	if err != nil {
		t.Fatal(err)
	}
	cells, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	phase, bench := cells[0].Phases[0], &Bench{Cell: &cells[0]}
	if of, want := owners(phase), []int{0, 1, 1, 1, 1, 1, 1, 1, 2}; !slices.Equal(of, want) {
		t.Fatalf("owners %v, want %v", of, want)
	}
	var all []tester.Stream
	frames := uint64(0)
	for k := range 7 {
		one, err := bench.stream(uint16(1+k), k, phase.Streams[1])
		if err != nil {
			t.Fatal(err)
		}
		all, frames = append(all, one), frames+one.Frames
		if one.ID != uint16(1+k) || one.Header.SourcePort != firstPort+one.ID || one.Header.DSCP != 1 || one.Gap != 70*time.Millisecond ||
			one.Start != time.Second+time.Duration(k)*10*time.Millisecond {
			t.Errorf("number %d is %+v", k, one)
		}
	}
	if frames != 100 || all[0].Name != "many 1" || all[6].Name != "many 7" {
		t.Errorf("%d frames in all of 100, named %q to %q", frames, all[0].Name, all[6].Name)
	}
}

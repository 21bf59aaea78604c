// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"net/netip"
	"path/filepath"
	"time"

	"weir/cmd/weir/cli"
	"weir/modules/ioam/collect"
	"weir/modules/ioam/evidence"
	"weir/modules/ioam/node"
	"weir/record/bundle"
)

// reading collects a bundle, with the initial counters of edge-to-edge flows.
type reading struct {
	evidence.Reading
	pins   string
	before []node.Edge
}

// startReading starts a reading. It needs an active policy.
func startReading(pins string) (r *reading, err error) {
	r = &reading{pins: pins}
	r.Summary, r.Started = &collect.Summary{}, time.Now()
	r.before, err = node.Edges(pins)
	return r, err
}

// keep writes the bundle of packets to a prefix, without edges if the policy was released
// meanwhile.
func keep(a *cli.App, r *reading, to netip.Prefix, dir string) error {
	now, unknown := node.Edges(r.pins)
	if unknown == nil {
		r.Edges = totalsOf(node.EdgesSince(r.before, now), to)
	}
	r.Finished = time.Now()
	b := evidence.Bundle(r.Reading)
	if unknown != nil {
		b.Manifest.Notes = append(b.Manifest.Notes, "Edge to edge: "+unknown.Error())
	}
	if err := a.Keep(&b, dir); err != nil {
		return err
	}
	a.Say("Evidence: %s", filepath.Join(dir, bundle.ReportFile))
	return nil
}

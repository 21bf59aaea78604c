// SPDX-License-Identifier: Apache-2.0

// Package edt is a link carrier inside the kernel: earliest departure times.
//
// Each direction of a cable is a BPF program at the near end's ingress and an fq qdisc at the far
// end's egress. When a frame arrives, the program decides its fate and departure time, and fq keeps
// it until then (drawing in edt.bpf.c). No process takes part after the setup, and there is one
// kernel queue per direction.
//
// Pitfalls:
//   - fq orders frames by departure time alone: it is configured to treat all frames as one flow.
//   - fq's limit is a million packets here.
//   - Schedules and AQM disciplines are not supported; Check reports them.
//   - A carrier device has no ring of its own: frames beyond a CPU's backlog
//     (net.core.netdev_max_backlog) are lost before the link, and the gate's balance shows them.
//   - A seed gives other random choices than in the emulator, because the generator differs.
package edt

import (
	"context"
	"errors"
	"fmt"

	"weir/kernel/device"
	"weir/kernel/netns"
	"weir/lab/link"
	"weir/lab/link/inkernel"
)

// Mechanism is the carrier's name in manifests.
const Mechanism = "departure times in fq"

// Carrier sets up programs and fq.
type Carrier struct{ inkernel.Carrier[*way] }

// New returns a carrier.
func New() *Carrier { return by("") }

// by returns a carrier that attaches programs by hook.
func by(hook device.Mechanism) *Carrier {
	return &Carrier{inkernel.Carrier[*way]{Name: Mechanism, Hook: hook, Beyond: beyond, Ready: ready,
		New: func(place *inkernel.Place, path inkernel.Path) *way { return &way{Path: path, place: place} }}}
}

// beyond describes the properties of a direction that a departure time set on arrival cannot
// express.
func beyond(d link.Direction) string {
	switch {
	case len(d.Schedule) > 0:
		return "follow a schedule"
	case d.Queue.Managed():
		return "manage a queue by " + string(d.Queue.Discipline)
	case d.Rate > 0 && d.Rate < 8:
		return "limit to less than an octet per second"
	case d.Delay > longest || d.Jitter > longest/deviations:
		return fmt.Sprintf("delay by more than %s", longest)
	}
	return ""
}

func ready(ns *netns.Namespace, dev string) error {
	return errors.Join(link.HandOver(ns, dev), link.Silence(ns, dev))
}

// Carry implements [link.Carrier].
func (c *Carrier) Carry(ctx context.Context, ns *netns.Namespace, cables []link.Cable) (link.Carrying, error) {
	r, err := c.Start(ctx, ns, cables)
	if err != nil {
		return nil, err
	}
	return &running{r}, nil
}

// running holds the active directions.
type running struct{ *inkernel.Running[*way] }

// Begin implements [link.Carrying].
func (r *running) Begin() error {
	if err := r.Each((*way).begin); err != nil {
		return fmt.Errorf("begin a span: %w", err)
	}
	return nil
}

// Depths implements [link.Gauging].
func (r *running) Depths() (all [][2][]uint32, err error) {
	var depths [][]uint32
	err = r.Each(func(w *way) error {
		d, err := w.depths()
		depths = append(depths, d)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the queues' lengths: %w", err)
	}
	for i := 0; i < len(depths); i += 2 {
		all = append(all, [2][]uint32{depths[i], depths[i+1]})
	}
	return all, nil
}

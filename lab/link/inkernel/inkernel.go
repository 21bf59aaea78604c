// SPDX-License-Identifier: Apache-2.0

// Package inkernel is the common part of carriers inside the kernel: they build directions of
// cables from programs and qdiscs, which then carry frames without any process.
package inkernel

import (
	"context"
	"fmt"

	"weir/internal/fault"
	"weir/kernel/device"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/tc"
	"weir/lab/link"
)

// Place is the namespace and the mechanism of directions.
type Place struct {
	Namespace *netns.Namespace
	Devices   *rtnl.Conn
	Qdiscs    *tc.Conn
	Hook      device.Mechanism // how programs are attached
}

// Path is one direction of a cable, with a unique name in its carrier.
type Path struct {
	link.Direction
	Name     string
	From, To string // the cable's ends
}

// Direction is an active path.
type Direction interface {
	Build() error
	Counters() (link.Counters, error)
	// Remove undoes Build, including a partial one.
	Remove() error
}

// Carrier carries cables by one kind of direction. Its fields must not change after the first use.
type Carrier[D Direction] struct {
	Name   string // the mechanism
	Hook   device.Mechanism
	Beyond func(link.Direction) string                 // describes unsupported properties, or ""
	Ready  func(ns *netns.Namespace, dev string) error // prepares a cable's end
	New    func(*Place, Path) D
}

// Mechanism returns the carrier's name.
func (c *Carrier[D]) Mechanism() string { return c.Name }

// Check rejects properties that the mechanism lacks.
func (c *Carrier[D]) Check(cable link.Cable) error {
	for _, d := range []link.Direction{cable.Forward, cable.Reverse} {
		if err := link.CheckDirection(d); err != nil {
			return fmt.Errorf("cable %s: %w", cable.Name, err)
		}
		if what := c.Beyond(d); what != "" {
			return fault.New(fault.Testbed, "use --carrier emulator for this scenario", "cable %s: %s cannot %s", cable.Name, c.Name, what)
		}
	}
	return nil
}

// Start builds the directions of all cables. It needs no process: ctx matters only until it
// returns.
func (c *Carrier[D]) Start(ctx context.Context, ns *netns.Namespace, cables []link.Cable) (*Running[D], error) {
	r, err := c.start(ctx, ns, cables)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	return r, nil
}

func (c *Carrier[D]) start(ctx context.Context, ns *netns.Namespace, cables []link.Cable) (_ *Running[D], err error) {
	r := &Running[D]{carrier: c, place: Place{Namespace: ns, Hook: c.Hook}}
	if r.place.Devices, err = rtnl.Open(ns); err != nil {
		return nil, err
	}
	if r.place.Qdiscs, err = tc.Open(ns); err != nil {
		r.place.Devices.Close()
		return nil, err
	}
	for number, cable := range cables {
		err := c.Check(cable)
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = r.add(number, cable)
		}
		if err != nil {
			_ = r.Close()
			return nil, err
		}
	}
	return r, nil
}

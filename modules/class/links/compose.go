// SPDX-License-Identifier: Apache-2.0

package links

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/internal/fault"
	"weir/internal/units"
	"weir/kernel/device"
	"weir/kernel/netns"
	"weir/kernel/probe"
	"weir/kernel/rtnl"
)

// Single is, for comparison, one first-in-first-out queue of 50 ms for all, at the link's rate.
const Single = "single"

// New returns the classes of a preset, or [Single], for a link of the caller, with ceilings by
// class name. fifo selects first-in-first-out queues, so that a measurement does not depend on the
// kernel's qdiscs.
func New(dev, name string, rate units.BitRate, ceilings map[string]units.BitRate, fifo bool) (*Treatment, error) {
	t := &Treatment{Device: dev, Rate: rate, Overhead: ethernetOverhead, Preset: name, Classes: preset(name)}
	if name == Single {
		t.Classes = []Class{{Name: bestEffort, Weight: 1, Queue: 50 * millisecond, ECN: NeverMark}}
	}
	if len(t.Classes) == 0 {
		known := append(slices.Sorted(maps.Keys(presets)), Single)
		return nil, fault.New(fault.Usage, "write one of "+strings.Join(known, ", "), "there is no preset %q", name)
	}
	if rate < minRate {
		return nil, fault.New(fault.Usage, "write the capacity of the link, as in rate: 20Mbit", "a rate of %s is below the minimum of %s", rate, minRate)
	}
	for _, class := range slices.Sorted(maps.Keys(ceilings)) {
		i := slices.IndexFunc(t.Classes, func(c Class) bool { return c.Name == class })
		if i < 0 {
			return nil, fault.New(fault.Usage, "name a class of the preset", "preset %s has no class %q", name, class)
		}
		c := &t.Classes[i]
		if c.Ceiling = ceilings[class]; c.Ceiling > rate || c.Ceiling < minRate {
			return nil, fault.New(fault.Usage, "write a rate from "+minRate.String()+" to the link's", "class %s: a ceiling of %s on a link of %s", class, c.Ceiling, rate)
		}
		c.Weight = min(c.Weight, units.Probability(float64(c.Ceiling)/float64(rate)))
	}
	for i := range t.Classes {
		if fifo {
			t.Classes[i].ECN = NeverMark
		}
	}
	return t, nil
}

// Needs returns the missing kernel feature, or nil. It changes nothing.
func Needs() error {
	for _, kind := range []string{"htb", "tbf"} {
		if err := probe.Qdisc(kind); err != nil {
			return err
		}
	}
	return probe.Classifier("bpf")
}

// Install puts the classes at the device of a namespace that is the caller's own and ends with
// them.
func (t *Treatment) Install(ns *netns.Namespace) error {
	conn, err := rtnl.Open(ns)
	if err != nil {
		return err
	}
	defer conn.Close()
	all, err := conn.Devices()
	if err != nil {
		return err
	}
	at := slices.IndexFunc(all, func(d rtnl.Device) bool { return d.Name == t.Device })
	if at < 0 {
		return fmt.Errorf("there is no device %s", t.Device)
	}
	program, id, err := t.load(false)
	if err != nil {
		return err
	}
	defer func() { _ = program.Close() }()
	return device.Put(ns, t.Device, t.tree(id, all[at].MTU, features{fqCodel: probe.Qdisc("fq_codel") == nil}))
}

// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/core/match"
	"weir/core/module"
	"weir/core/policy"
	"weir/core/selector"
	"weir/internal/fault"
	"weir/kernel/netns"
	"weir/modules/limit/shape"
)

// ByRefusal and ByDelay are what becomes of packets beyond the rate. "" is ByRefusal.
const (
	ByRefusal = "refusal" // senders are paced; what comes all the same is rejected or dropped
	ByDelay   = "delay"   // they wait at the device
)

// refuseDelays refuses limits by delay of what cannot be told where packets wait, once parents are
// known and parts of them are.
func refuseDelays(d *policy.Draft, own []*Treatment) {
	for i, t := range own {
		s := &d.Scopes[i]
		for _, of := range Directions {
			l := t.of(of)
			if l == nil || l.By != ByDelay {
				continue
			}
			switch kind := s.Selector.Kind; {
			case selector.IsLoopback(s.Selector) || t.Loopback:
				d.Complain(s, of.String(), "%s: packets over lo are not delayed: leave by: delay or loopback out", of)
			case of == Ingress && kind != kindInterface && kind != kindNetns && kind != policy.Group:
				d.Complain(s, of.String(), "%s: by: delay is for scopes of interfaces and network namespaces, and of groups of them: whose packets they are is not known where they wait; leave it out, or limit an interface", of)
			case kind == kindInterface && under(d, i, kindInterface):
				d.Complain(s, "parent", "packets of %s and of an interface above it are charged as they leave each: leave the parent out, or have a group be the parent of both", s.Selector)
			case kind == kindNetns && !belowGroups(d, i) || under(d, i, kindNetns):
				d.Complain(s, "parent", "packets of a network namespace wait at its own devices, and those of %s are charged elsewhere too: leave the parent out, or have a group be the parent of both", s.Selector)
			case l.Min > 0:
				d.Complain(s, of.String(), "%s: by: delay keeps no minimum: give it a weight, or leave by: delay out", of)
			}
		}
	}
}

// under says whether a scope above one is of a kind.
func under(d *policy.Draft, i int, kind string) bool {
	for at := d.Scopes[i].Above; at >= 0; at = d.Scopes[at].Above {
		if d.Scopes[at].Selector.Kind == kind {
			return true
		}
	}
	return false
}

// belowGroups says whether all scopes above one are groups.
func belowGroups(d *policy.Draft, i int) bool {
	for at := d.Scopes[i].Above; at >= 0; at = d.Scopes[at].Above {
		if d.Scopes[at].Selector.Kind != policy.Group {
			return false
		}
	}
	return true
}

// delays says whether a direction of a scope is limited by delay. In shadow, which changes nothing
// at devices, packets are counted as a limit by refusal would treat them.
func delays(s policy.Scope, of Direction) bool {
	l := treatmentOf(s).of(of)
	return l != nil && l.By == ByDelay && !s.Shadow
}

// refuses says whether a direction of a scope is limited by refusal.
func refuses(s policy.Scope) bool {
	for _, of := range Directions {
		if treatmentOf(s).of(of) != nil && !delays(s, of) {
			return true
		}
	}
	return false
}

// refusesIn says whether a scope has its senders paced, or its receivers' windows set, by refusal's
// programs: where there is one, those of limits by delay leave that to them. Two that set one
// socket's pace or window take each other for its application.
func refusesIn(s policy.Scope, of Direction) bool {
	return treatmentOf(s).of(of) != nil && !delays(s, of) && !s.Shadow
}

// Line is the limit in the words of the data plane that delays; it has no device yet.
func (l Limit) Line(of Direction) shape.Line {
	l = l.WithDefaults()
	return shape.Line{Direction: of, Weight: l.Weight, Rate: l.Rate, Cost: cost(l.Rate), Burst: l.Burst, Mark: l.Mark, Horizon: l.Drop,
		SmallOctets: tunables.SmallOctets}
}

// lineOf is a scope's line; false where there is none, or its interface is not there.
func lineOf(b module.Bound, of Direction, named map[string]module.Bound) (shape.Line, bool) {
	if !delays(b.Scope, of) {
		return shape.Line{}, false
	}
	l := treatmentOf(b.Scope).of(of).Line(of)
	if above, there := named[b.Parent]; there {
		if parent, in := lineOf(above, of, named); in {
			l.Parent = parent.Key()
		}
	}
	l.Index = b.Index
	if b.Selector.Kind == kindNetns {
		l.Namespace = selector.NamespacePath(b.Selector.Text)
	}
	if b.Selector.Kind != kindInterface {
		return l, true
	}
	l.Device, l.Index = b.Selector.Text, int(b.Binding.Number)
	return l, b.Binding.Kind == match.Interface && b.Binding.Missing == ""
}

// work is the part of a state that is limited by delay.
func work(s module.State) (w shape.Work) {
	var told module.State // by their packets, at every device
	named := s.ByName()
	for _, b := range s.Scopes {
		for _, of := range Directions {
			if l, is := lineOf(b, of, named); is {
				w.Lines = append(w.Lines, l)
			}
		}
		if delays(b.Scope, Egress) && b.Selector.Kind != kindInterface && b.Selector.Kind != kindNetns {
			told.Scopes = append(told.Scopes, b)
		}
		w.Unpaced = w.Unpaced || refusesIn(b.Scope, Egress)
		w.Unheld = w.Unheld || refusesIn(b.Scope, Ingress)
	}
	w.Assignments, w.Places, w.Shared = told.Assignments(), told.Places(), s.Shared
	return w
}

// refusing is the part of a state that is limited by refusal.
func refusing(s module.State) module.State {
	rest := module.State{Host: s.Host}
	for _, b := range s.Scopes {
		t := *treatmentOf(b.Scope)
		for _, of := range Directions {
			if delays(b.Scope, of) {
				t.set(of, nil)
			}
		}
		if t.Egress == nil && t.Ingress == nil {
			continue
		}
		b.Treatments = maps.Clone(b.Treatments)
		b.Treatments[moduleName], b.Treatment = &t, &t
		rest.Scopes = append(rest.Scopes, b)
	}
	return rest
}

// wholePlane is both data planes: limits by refusal, and those by delay.
type wholePlane struct {
	refusals *hostPlane
	delays   shape.Host
}

// Plane is the pinned data plane of a host.
func (Module) Plane(h module.Host) module.Plane {
	return &wholePlane{&hostPlane{h}, shape.Host{Pins: h.Pins + "-delay", Devices: h.Devices, Files: h.Files, CgroupRoot: h.CgroupRoot, Namespaces: h.Namespaces}}
}

// Ready refuses what either cannot do.
func (p *wholePlane) Ready(want module.State) error {
	var all []error
	if rest := refusing(want); !rest.Empty() {
		all = append(all, p.refusals.Ready(rest))
	} else if !want.Empty() {
		all = append(all, CanPin(p.refusals.host.Pins))
	}
	named := want.ByName()
	for _, b := range want.Scopes {
		for _, of := range Directions {
			if !delays(b.Scope, of) {
				continue
			}
			_, err := shape.Available(of)
			if l, there := lineOf(b, of, named); err == nil && there && l.Device != "" {
				err = p.delays.Check(l)
			}
			if err != nil {
				all = append(all, &module.Unsupported{Scope: b.Name, Key: of.String(), Err: err})
			}
		}
	}
	return errors.Join(append(all, p.delays.Ready(work(want)))...)
}

// InPlace says whether both are.
func (p *wholePlane) InPlace(have module.State) (bool, error) {
	rest := refusing(have)
	in, err := true, error(nil)
	if !rest.Empty() || have.Empty() {
		in, err = p.refusals.InPlace(rest)
	}
	if have.Empty() {
		any, more := p.delays.Any()
		return in || any, errors.Join(err, more)
	}
	if err != nil || !in {
		return false, err
	}
	return p.delays.InPlace(work(have))
}

// Apply leads both from one state to another.
func (p *wholePlane) Apply(have, want module.State) (notes []string, err error) {
	had, rest, delayed := refusing(have), refusing(want), work(want)
	foreseen := p.PlanNotes(want)
	if err := p.delays.Cede(delayed); err != nil {
		return nil, err
	}
	if !rest.Empty() {
		notes, err = p.refusals.Apply(had, rest)
	} else if attachmentsPinned(p.refusals.host.Pins) {
		_, err = p.refusals.Release()
	}
	if err != nil {
		return nil, err
	}
	delays := p.delays
	delays.Foreign = &netns.Few{Most: mostForeign}
	err = delays.Apply(work(have).Assignments, delayed)
	return slices.Concat(notes, foreseen, leftOut(delays.Foreign)), err
}

// Foresee names the trees of qdiscs that devices would lose.
func (p *wholePlane) PlanNotes(want module.State) []string {
	w := work(want)
	return append(inPlaceOf(p.delays.PlanNotes(w)), p.heldNowhere(w)...)
}

// heldNowhere names the network namespaces that nothing leads from, so that nothing is limited.
func (p *wholePlane) heldNowhere(w shape.Work) (notes []string) {
	for _, name := range p.delays.Unled(w) {
		notes = append(notes, "no veth pair leads from the network namespace "+name+" into this one: nothing of it is limited by delay until one does")
	}
	return notes
}

// inPlaceOf says in the place of which trees packets wait; nothing where there is none.
func inPlaceOf(trees []string) []string {
	const named = 8
	if len(trees) == 0 {
		return nil
	}
	text := strings.Join(trees[:min(named, len(trees))], ", ")
	if more := len(trees) - named; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return []string{"by delay packets wait in the place of " + text + ", which weir release puts back"}
}

// Takes are the devices at whose egress packets are delayed; what is received waits at an ifb.
func (p *wholePlane) QdiscDevices(s module.State) (devices []string) {
	all, err := p.delays.AtDevices(work(s))
	if err != nil {
		return nil // Ready fails too
	}
	for _, l := range all {
		if l.Direction == Egress {
			devices = append(devices, l.Device)
		}
	}
	return devices
}

// CanHost returns ErrNotShared: a shaper's tree has no classes.
func (p *wholePlane) CanHost() error { return module.ErrNotShared }

// Nests says why packets of limits cannot wait in the tree that another room has at a device: they
// can by each one's own departure time.
func (p *wholePlane) CanNest(s module.State, dev string) error {
	named := s.ByName()
	for _, b := range s.Scopes {
		if l, is := lineOf(b, Egress, named); is && l.Device == dev {
			return fault.New(fault.Usage, fmt.Sprintf("write the lesser rate of both as links.%s.rate, which the classes share, and leave egress by: delay of scope %s out", dev, b.Name),
				"scope %s would hold all classes of %s in one queue, in front of theirs", b.Name, dev)
		}
	}
	return nil
}

// Yield ends the limits by delay that are not wanted.
func (p *wholePlane) Yield(want module.State) error {
	all, err := p.delays.AtDevices(work(want))
	if err != nil {
		return err
	}
	return p.delays.Yield(all)
}

// Follow has the open sockets of a network namespace that has come paced.
func (p *wholePlane) Follow(ns *netns.Namespace) error {
	return errors.Join(p.refusals.Follow(ns), p.delays.Follow(ns))
}

// Holds says whether traffic of a key is a scope's, whoever has bound it.
func (p *wholePlane) Holds(scope int, key match.Key) (bool, error) {
	holds, err := p.refusals.Holds(scope, key)
	if err != nil || holds {
		return holds, err
	}
	return p.delays.Holds(scope, key)
}

// FollowDevices has packets of scopes wait at the devices that have come to the thread's network
// namespace.
func (p *wholePlane) FollowDevices(ns *netns.Namespace, have module.State) error {
	if ns != nil {
		return nil
	}
	return p.delays.FollowDevices(have.Shared)
}

// Release ends both.
func (p *wholePlane) Release() (released bool, err error) {
	delayed, err := p.delays.Release()
	if err != nil {
		return delayed, err
	}
	refused, err := p.refusals.Release()
	return delayed || refused, err
}

// Report tells what both have done so far.
func (p *wholePlane) Report(have module.State) (module.Report, error) {
	report, err := p.refusals.Report(refusing(have))
	if err != nil {
		return report, err
	}
	before, err := p.delays.Replaced()
	if err != nil {
		return report, err
	}
	report.Note = slices.Concat(report.Note, inPlaceOf(before), p.heldNowhere(work(have)))
	named := have.ByName()
	for _, b := range have.Scopes {
		for _, of := range Directions {
			if !delays(b.Scope, of) {
				continue
			}
			r := reading{rate: treatmentOf(b.Scope).of(of)}
			row := module.Row{Scope: b.Name, Part: of.String(), Promise: r.rate.String()}
			if l, there := lineOf(b, of, named); there {
				c, in, err := p.delays.Counters(l)
				if err != nil {
					return report, err
				}
				if in {
					r.delayed(c)
					row.Values = module.ValuesOf(fields(), r)
				}
			}
			report.Rows = append(report.Rows, row)
		}
	}
	return report, nil
}

// delayed fills in what was read of a limit by delay.
func (r *reading) delayed(c shape.Counters) {
	r.delay = &c
	r.now = State{FairRate: c.FairRate, Allowed: r.rate.Rate, Queue: c.Delay}
	r.count = Counters{limitLimitCounters: limitLimitCounters{Packets: c.Packets, Segments: c.Segments, Bytes: c.Octets, Marked: c.Marked,
		Reduced: c.Notified, Refused: c.Early + c.Dropped, Retries: c.Retries, Windows: c.Windows, Queue: c.Delays}}
}

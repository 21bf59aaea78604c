// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"fmt"
	"strings"

	"weir/core/module"
	"weir/modules/offload/live"
	"weir/modules/offload/plan"
	"weir/modules/offload/state"
)

// leftOut returns notes about links and packets that stay with the kernel.
func leftOut(t *Treatment, planned *plan.Planner) (notes []string) {
	if missing := plan.Missing(planned.State(), t.Policy()); len(missing) > 0 {
		notes = append(notes, fmt.Sprintf("offload: waiting for devices that do not exist: %s", strings.Join(missing, ", ")))
	}
	for _, f := range planned.Filters() {
		notes = append(notes, "offload: "+filterWords(f))
	}
	return notes
}

// filterWords describes a filter and the packets that it keeps with the kernel.
func filterWords(f state.Filter) string {
	if f.Undelivered {
		return f.Name + " drops redirected frames: the kernel forwards packets to it"
	}
	family := "IPv4 and IPv6"
	switch {
	case !f.IPv6:
		family = "IPv4"
	case !f.IPv4:
		family = "IPv6"
	}
	packets := "all forwarded " + family + " packets"
	if f.To.IsValid() && f.To.Bits() > 0 {
		packets = "packets to " + f.To.String()
	}
	return fmt.Sprintf("%s may decide about %s: the kernel forwards them", f.Name, packets)
}

// PlanNotes names the packets that would stay with the kernel.
func (p *hostPlane) PlanNotes(want module.State) []string {
	t := treatmentOf(want)
	if t == nil {
		return nil
	}
	notes, err := p.leftOutNow(t)
	if err != nil {
		return nil // Ready reports it
	}
	return notes
}

// leftOutNow returns the notes for the host's present state, without its routes.
func (p *hostPlane) leftOutNow(t *Treatment) ([]string, error) {
	s, err := live.ReadLinks(p.ns)
	if err != nil {
		return nil, err
	}
	ports, err := p.undelivered(t, s)
	if err != nil {
		return nil, err
	}
	withUndelivered(s, ports)
	planned, err := plan.New(t.Policy(), s)
	if err != nil {
		return nil, err
	}
	return leftOut(t, planned), nil
}

// SPDX-License-Identifier: Apache-2.0

package links

import (
	"fmt"
	"maps"
	"slices"

	"weir/core/module"
	"weir/kernel/device"
)

// PlanNotes names the qdisc trees that the links would replace.
func (p *hostPlane) PlanNotes(want module.State) (notes []string) {
	for _, name := range slices.Sorted(maps.Keys(treatments(want))) {
		if before := device.Replaceable(nil, name); before != "" {
			notes = append(notes, inPlaceOf(name, before))
		}
	}
	return notes
}

// replaced names the trees that the active links replaced.
func (p *hostPlane) replaced(have module.State) (notes []string, err error) {
	links := treatments(have)
	if len(links) == 0 {
		return nil, nil
	}
	formers, err := p.formers().All()
	if err != nil {
		return nil, err
	}
	known, err := devices()
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(links)) {
		if f, taken := find(formers, known[name]); taken && f.Before.String() != "" {
			notes = append(notes, inPlaceOf(name, f.Before.String()))
		}
	}
	return notes, nil
}

func inPlaceOf(name, before string) string {
	return fmt.Sprintf("links.%s: its classes are in the place of %s, which weir release puts back", name, before)
}

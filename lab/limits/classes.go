// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"fmt"

	"weir/internal/fault"
	"weir/lab/scenario"
	"weir/lab/topology"
	"weir/modules/class/links"
)

// CheckClasses says whether the classes of links have a meaning and this kernel can. Nothing is
// changed.
func CheckClasses(cell *scenario.Cell) error {
	for _, l := range cell.Links {
		if l.Classes == nil {
			continue
		}
		_, err := links.New("", l.Classes.Preset, l.Classes.Rate, l.Classes.Ceilings, l.Classes.FIFO)
		if err == nil {
			err = links.Needs()
		}
		if err != nil {
			return fault.Wrap(fmt.Errorf("link %s: classes: %w", l.Name, err), fault.Of(err), fault.Advice(err))
		}
	}
	return nil
}

// ImposeClasses puts the classes of the cell's links at both of their devices. They go with the
// namespaces.
func ImposeClasses(cell *scenario.Cell, built *topology.Topology) error {
	for i, l := range cell.Links {
		if l.Classes == nil {
			continue
		}
		for _, end := range built.Ends[2*i : 2*i+2] {
			t, err := links.New(end.Device, l.Classes.Preset, l.Classes.Rate, l.Classes.Ceilings, l.Classes.FIFO)
			if err == nil {
				err = t.Install(built.Nodes[end.Node])
			}
			if err != nil {
				return fmt.Errorf("link %s: classes at %s: %w", l.Name, end.Node, err)
			}
		}
	}
	return nil
}
